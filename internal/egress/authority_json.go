package egress

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
)

// handed is an authority on its way to the process that needs it.
type handed struct{ Cert, Key []byte }

// MarshalJSON writes what UnmarshalJSON reads, the key included: it's for nobody but egress's process.
func (a *Authority) MarshalJSON() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(handed{a.cert.Raw, key})
}

// UnmarshalJSON reads an authority.
func (a *Authority) UnmarshalJSON(text []byte) error {
	var h handed
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	cert, err := x509.ParseCertificate(h.Cert)
	if err != nil {
		return err
	}
	key, err := x509.ParsePKCS8PrivateKey(h.Key)
	if err != nil {
		return err
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("the key of an authority isn't of its kind")
	}
	a.cert, a.key, a.leaves = cert, own, map[string]*tls.Certificate{}
	return nil
}
