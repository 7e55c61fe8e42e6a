package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// authorityLifetime is the lifetime of the authority and its certificates. In a session that runs longer, TLS fails.
const authorityLifetime = 30 * 24 * time.Hour

// maxCertificates limits the cached certificates.
const maxCertificates = 512

// Authority issues the certificates for intercepted TLS. Its key exists only in the memory of egress and of the process that passes it to
// the next egress, and only the session's bundle makes programs trust it.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu           sync.Mutex
	certificates map[string]*tls.Certificate
}

// NewAuthority returns an authority with a new key.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := newTemplate("toolguard session")
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the session's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert: cert, key: key, certificates: map[string]*tls.Certificate{}}, err
}

// newTemplate returns the fields common to all certificates. They are valid from the day before, for clocks that are slow.
func newTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // fails only where the reader does, which never does
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(authorityLifetime),
	}
}

// Bundle returns the authority's certificate in PEM.
func (a *Authority) Bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// certificate returns a certificate for a name or an address.
func (a *Authority) certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.certificates[host]; c != nil {
		return c, nil
	}
	t := newTemplate("")
	if ip := net.ParseIP(host); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{host}
	}
	t.NotAfter = a.cert.NotAfter
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	if len(a.certificates) >= maxCertificates {
		clear(a.certificates)
	}
	a.certificates[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return a.certificates[host], nil
}
