package nettest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// Accept calls serve for each connection, concurrently, until l is closed. It closes the connection when serve returns.
func Accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// Greet returns the request's method and URL. To a WebSocket request, it only returns the upgrade.
func Greet(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "websocket" {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		return
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	fmt.Fprintf(w, "hello %s %s://%s%s by HTTP/%d\n", r.Method, scheme, r.Host, r.URL.Path, r.ProtoMajor)
}

// ServeWeb serves Greet over HTTP until l is closed, with an authority over TLS for every server name.
func ServeWeb(l net.Listener, ca *Authority) {
	s := http.Server{Handler: http.HandlerFunc(Greet), ErrorLog: log.New(io.Discard, "", 0)}
	if ca == nil {
		_ = s.Serve(l) // it always returns an error
		return
	}
	s.TLSConfig = &tls.Config{GetCertificate: ca.certificate, NextProtos: []string{"h2", "http/1.1"}}
	_ = s.ServeTLS(l, "", "")
}

// Authority issues server certificates.
type Authority struct {
	Key *ecdsa.PrivateKey // also of every server
	PEM []byte

	cert *x509.Certificate
}

// NewAuthority creates an authority that nothing trusts yet.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's internet"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{Key: key, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert: cert}, err
}

func (a *Authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		return a.Certify()
	}
	return a.Certify(hello.ServerName)
}

// Certify issues a certificate for names.
func (a *Authority) Certify(names ...string) (*tls.Certificate, error) {
	t := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &a.Key.PublicKey, a.Key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.Key}, err
}
