//go:build linux

package net

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/nettest"
)

// serveNames starts a name server for the zone.
func serveNames(at string) error {
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	go zone.ServeUDP(c)
	go zone.ServeTCP(l)
	return nil
}

// serveWeb starts the web server of all hosts.
func serveWeb(ca *nettest.Authority) error {
	for port, ca := range map[string]*nettest.Authority{":80": nil, ":8088": nil, ":443": ca, ":8443": ca} {
		l, err := net.Listen("tcp", port)
		if err != nil {
			return err
		}
		go nettest.ServeWeb(l, ca)
	}
	return nil
}

// serveCareless accepts what proper servers reject: of two lengths the last, whatever else describes the body; lines and heads that end
// with LF; and a change to any protocol, in which it echoes its input.
func serveCareless(at string) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	go nettest.Accept(l, func(c net.Conn) {
		for in := bufio.NewReader(c); careless(c, in); {
		}
	})
	return nil
}

// careless answers one request, and reports whether another may follow.
func careless(c net.Conn, in *bufio.Reader) bool {
	fields := map[string]string{}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return false
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		fields[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	if to := fields["upgrade"]; to != "" {
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n", to)
		_, _ = io.Copy(c, in)
		return false
	}
	length, _ := strconv.Atoi(fields["content-length"])
	_, err := in.Discard(length)
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	return err == nil && fields["connection"] != "close"
}
