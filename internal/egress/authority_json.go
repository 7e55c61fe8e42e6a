package egress

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
)

// authorityJSON is an authority in JSON, for egress only: it includes the key.
type authorityJSON struct{ Cert, Key []byte }

// MarshalJSON encodes the authority, including its key.
func (a *Authority) MarshalJSON() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(authorityJSON{a.cert.Raw, key})
}

// UnmarshalJSON decodes an authority.
func (a *Authority) UnmarshalJSON(text []byte) error {
	var h authorityJSON
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
		return errors.New("the authority's key is no ECDSA key")
	}
	a.cert, a.key, a.certificates = cert, own, map[string]*tls.Certificate{}
	return nil
}
