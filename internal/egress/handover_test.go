package egress

import (
	"crypto/x509"
	"encoding/json"
	"testing"
)

// An authority that was handed over makes certificates that are believed by who believes the one before.
func TestAuthorityHandedOver(t *testing.T) {
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var b Authority
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	leaf, err := b.leaf("a.test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.Bundle()) {
		t.Fatal("no certificate in the bundle")
	}
	if _, err := c.Verify(x509.VerifyOptions{DNSName: "a.test", Roots: roots}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"{}", `{"Cert":"AA==","Key":"AA=="}`, "[]"} {
		if err := json.Unmarshal([]byte(bad), &b); err == nil {
			t.Errorf("%s is an authority", bad)
		}
	}
}
