package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// connector makes requests to a server, by a proxy or directly.
type connector struct {
	host, at, proxy string
	tls             bool
}

// client executes the orders on standard input, and prints the nanoseconds of each.
func client(host, at, proxy string, under bool) error {
	server, port, err := net.SplitHostPort(at)
	if err != nil {
		return err
	}
	found, err := net.LookupHost(server) // once, as name resolution isn't measured
	if err != nil {
		return err
	}
	k := &connector{host, net.JoinHostPort(found[0], port), proxy, under}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &what, &n); err != nil {
			return err
		}
		took, err := k.do(what, n)
		if err != nil && proxy != "" { // a proxy may fail once: squid does, if a persistent connection is too old
			fmt.Fprintf(os.Stderr, "network: %s by %s once more: %v\n", lines.Text(), proxy, err)
			took, err = k.do(what, n)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		fmt.Println(took.Nanoseconds())
	}
	return nil
}

func (k *connector) do(what string, n int) (time.Duration, error) {
	began := time.Now()
	switch what {
	case "connect":
		for range n {
			c, err := net.Dial("tcp4", k.first())
			if err != nil {
				return 0, err
			}
			c.Close()
		}
		return time.Since(began), nil
	case "fresh":
		for range n {
			c, err := k.dial()
			if err == nil {
				err = c.ask(0, 0)
				c.Close()
			}
			if err != nil {
				return 0, err
			}
		}
		return time.Since(began), nil
	}
	c, err := k.dial()
	if err != nil {
		return 0, err
	}
	began = time.Now()
	switch what {
	case "down":
		err = c.ask(0, n<<20)
	case "up":
		err = c.ask(n<<20, 0)
	case "requests":
		for i := 0; i < n && err == nil; i++ {
			if err = c.ask(0, 0); err != nil && k.proxy != "" { // tinyproxy closes the connection without announcing it
				c.Close()
				if c, err = k.dial(); err == nil {
					err = c.ask(0, 0)
				}
			}
		}
		if err != nil {
			return 0, err
		}
	}
	c.Close()
	return time.Since(began), err
}

// first is the address to connect to.
func (k *connector) first() string {
	if k.proxy != "" {
		return k.proxy
	}
	return k.at
}

// conn is a connection on which requests are made.
type conn struct {
	net.Conn
	in         *bufio.Reader
	host, base string
	buf        []byte
}

func (k *connector) dial() (*conn, error) {
	c, err := net.Dial("tcp4", k.first())
	if err != nil {
		return nil, err
	}
	host, base := k.host, ""
	if k.proxy != "" && k.tls {
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", k.at, k.at)
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
		if err != nil || resp.StatusCode != http.StatusOK {
			c.Close()
			return nil, fmt.Errorf("CONNECT: %v, %w", resp, err)
		}
	} else if k.proxy != "" {
		host, base = k.at, "http://"+k.at
	}
	if k.tls {
		c = tls.Client(c, &tls.Config{ServerName: k.host, InsecureSkipVerify: true}) // the same for all, whichever proxy terminates TLS
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 4096), host: host, base: base, buf: make([]byte, chunk)}, nil
}

// ask sends that many bytes, and reads an answer of that many.
func (c *conn) ask(send, get int) error {
	method := http.MethodGet
	if send > 0 {
		method = http.MethodPost
	}
	if _, err := fmt.Fprintf(c, "%s %s/?n=%d HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", method, c.base, get, c.host, send); err != nil {
		return err
	}
	for ; send > 0; send -= len(c.buf) {
		if _, err := c.Write(c.buf[:min(send, len(c.buf))]); err != nil {
			return err
		}
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, c.buf)
	if err == nil && (resp.StatusCode != http.StatusOK || n != int64(get)) {
		err = fmt.Errorf("%s, with %d bytes instead of %d", resp.Status, n, get)
	}
	return err
}
