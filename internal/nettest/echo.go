package nettest

import (
	"fmt"
	"io"
	"net"
)

// Echo returns what it receives, preceded by its own address, or with UDP by "echo", until the process exits.
func Echo(network, at string) error {
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
	go Accept(l, func(c net.Conn) {
		fmt.Fprintf(c, "echo %s ", c.LocalAddr())
		_, _ = io.Copy(c, c)
	})
	return nil
}
