package egress

import (
	"crypto/x509"
	"encoding/json"
	"testing"
)

// A decoded authority issues certificates that clients of the original trust.
func TestAuthorityJSON(t *testing.T) {
	a, err := NewAuthority()
	must(t, err)
	text, err := json.Marshal(a)
	must(t, err)
	var b Authority
	must(t, json.Unmarshal(text, &b))
	leaf, err := b.certificate("a.test")
	must(t, err)
	c, err := x509.ParseCertificate(leaf.Certificate[0])
	must(t, err)
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
