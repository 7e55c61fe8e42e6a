package nettest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
)

// Collect writes a request that ships events, without its Authorization header, and returns its body.
func Collect(into io.Writer, r *http.Request) (body string) {
	text, _ := io.ReadAll(r.Body)
	fmt.Fprintf(into, "%s\n%s\n", r.URL, text)
	for name, values := range r.Header {
		if name != "Authorization" {
			fmt.Fprintln(into, name, values)
		}
	}
	return string(text)
}

// Collected is a successful response of a webhook, Splunk and OpenTelemetry receivers.
const Collected = `{"ackId":0,"acks":{"0":true}}`

// Datagrams writes the datagrams that a unix socket receives, until it is closed.
func Datagrams(into io.Writer, name string) (io.Closer, error) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name})
	if err != nil {
		return nil, err
	}
	go func() {
		buf := make([]byte, 1<<20)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			fmt.Fprintf(into, "%s: %s\n", filepath.Base(name), buf[:n])
		}
	}()
	return c, nil
}
