// Package endpoint posts calls to the addresses of hooks. It links HTTP and TLS, so that only toolguard-ship imports it.
//
// Servers are authenticated by the system's certificates, or those of SSL_CERT_FILE and SSL_CERT_DIR. The proxies are those of the environment.
// Redirects aren't followed: who answers is who the policy names. An address without TLS must be on this machine, where no other machine can read
// or change what is sent; no proxy is used for it.
package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// Answer is the answer of a server, as JSON for toolguard.
type Answer struct {
	Status int    `json:"status"`
	Body   []byte `json:"body"` // in base64
}

// The largest texts, in bytes.
const (
	maxAddress = 8 << 10
	maxBody    = 32 << 20 // a call, and its result
	maxAnswer  = 1 << 20
)

// Serve reads an address and a body, posts the body, and returns the answer. The address is the first line. Errors don't contain it, as it may
// have a secret.
func Serve(ctx context.Context, in io.Reader, agent string) (*Answer, error) {
	r := bufio.NewReaderSize(in, maxAddress)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read the address, which is the first line of the input: %w", err)
	}
	address := strings.TrimSuffix(string(line), "\n")
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the call: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the call is larger than %d MiB", maxBody>>20)
	}
	return post(ctx, address, agent, body)
}

func post(ctx context.Context, address, agent string, body []byte) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil || req.URL.Host == "" {
		return nil, errors.New("the address can't be parsed")
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	switch req.URL.Scheme {
	case "https":
	case "http":
		t.Proxy, t.DialContext = nil, (&net.Dialer{Control: onlyThisMachine}).DialContext
	default:
		return nil, errors.New("the address isn't one of https or http")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", agent)
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // without the address
		}
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	return &Answer{resp.StatusCode, text}, nil
}

// onlyThisMachine rejects connections to other machines, whatever a name resolves to.
func onlyThisMachine(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return errors.New("http without TLS is only for this machine: use https")
	}
	return nil
}
