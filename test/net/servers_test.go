//go:build linux

package net

import (
	"bytes"
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
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// serveNames answers for the zone, by UDP, and by TCP one question on each connection.
func serveNames(at string) error {
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			if n, err := c.Read(b); err == nil && n > 2 {
				if reply, err := answer(b[2:n]); err == nil {
					_, _ = c.Write(append(binary16(len(reply)), reply...))
				}
			}
			_ = c.Close()
		}
	}()
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if reply, err := answer(b[:n]); err == nil {
				_, _ = c.WriteTo(reply, from)
			}
		}
	}()
	return nil
}

func binary16(n int) []byte { return []byte{byte(n >> 8), byte(n)} }

func answer(b []byte) ([]byte, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true}, Questions: []dnsmessage.Question{q}}
	addrs, ok := zone[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}}
		switch a := netip.MustParseAddr(a); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}

// serveEcho answers what it's sent, with its own address before it.
func serveEcho(network, at string) error {
	if network == "udp" {
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			return err
		}
		go func() {
			b := make([]byte, 4096)
			for {
				n, from, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = c.WriteTo(append([]byte("echo "), b[:n]...), from)
			}
		}()
		return nil
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprintf(c, "echo %s ", c.LocalAddr())
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return nil
}

// serveWeb is every host's web server.
func serveWeb(ca *authority) error {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		fmt.Fprintf(w, "hello %s %s://%s%s by HTTP/%d\n", r.Method, scheme, r.Host, r.URL.Path, r.ProtoMajor)
	})
	quiet := log.New(io.Discard, "", 0)
	plain, err := net.Listen("tcp", ":80")
	if err != nil {
		return err
	}
	go http.Serve(plain, h)
	under, err := net.Listen("tcp", ":443")
	if err != nil {
		return err
	}
	s := http.Server{Handler: h, ErrorLog: quiet, TLSConfig: &tls.Config{GetCertificate: ca.certificate, NextProtos: []string{"h2", "http/1.1"}}}
	go s.ServeTLS(under, "", "")
	return nil
}

// authority makes the servers' certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
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
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// certificate is one for whatever name is asked for.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		return a.certify()
	}
	return a.certify(hello.ServerName)
}

func (a *authority) certify(names ...string) (*tls.Certificate, error) {
	t := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &a.key.PublicKey, a.key)
	return &tls.Certificate{Certificate: [][]byte{bytes.Clone(der)}, PrivateKey: a.key}, err
}
