package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"

	"github.com/toolguard/toolguard/internal/nettest"
)

// chunk is the size of reads and writes.
const chunk = 256 << 10

// serve starts the name server, and the server, with and without TLS.
func serve(ca *nettest.Authority) error {
	names, err := net.ListenPacket("udp", "127.0.0.53:53")
	if err != nil {
		return err
	}
	go nettest.Names{name: {address}}.ServeUDP(names)
	cert, err := ca.Certify(name)
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp4", address+":80")
	if err != nil {
		return err
	}
	under, err := tls.Listen("tcp4", address+":443", &tls.Config{Certificates: []tls.Certificate{*cert}})
	if err != nil {
		return err
	}
	s := http.Server{Handler: http.HandlerFunc(answer), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.Serve(plain) }()
	go func() { _ = s.Serve(under) }()
	return nil
}

// answer sends as much as requested, or reads the request's body.
func answer(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	w.Header().Set("Content-Length", strconv.Itoa(n))
	b := make([]byte, chunk)
	if r.ContentLength > 0 {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r.Body}, b)
	}
	for ; n > 0; n -= len(b) {
		if _, err := w.Write(b[:min(n, len(b))]); err != nil {
			return
		}
	}
}
