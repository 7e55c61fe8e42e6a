//go:build linux

package net

import (
	"fmt"
	"io"
	"net"

	"github.com/toolguard/toolguard/internal/nettest"
)

// serveNames answers for the zone.
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
	go nettest.Accept(l, func(c net.Conn) {
		fmt.Fprintf(c, "echo %s ", c.LocalAddr())
		_, _ = io.Copy(c, c)
	})
	return nil
}

// serveWeb is every host's web server.
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
