package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/calls/socket"
	"github.com/toolguard/toolguard/internal/childtest"
)

// answering listens at a path, and answers each connection's first request with a text.
func answering(t *testing.T, path, text string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	childtest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}()
		}
	}()
}

// What isn't a complete answer in JSON is an error. An error status is one in any case.
func TestAnswers(t *testing.T) {
	for text, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}":                  "",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{":                   "unexpected EOF",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{":                   "unexpected end of JSON",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{":            "unexpected EOF",
		"HTTP/1.1 403 No\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}": "no",
		"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}":                  "answered with status 500",
		"HTTP/1.1 302 No\r\nContent-Length: 0\r\n\r\n":                    "answered with status 302",
		"hello\r\n": "isn't HTTP",
		"":          "unexpected EOF",
		"HTTP/1.1 200 OK\r\n\r\n\"" + strings.Repeat("x", maxAnswer) + "\"": "more than 67108864 bytes",
	} {
		path := filepath.Join(t.TempDir(), "s")
		answering(t, path, text)
		c := Client{Address: path}
		err := c.Do(t.Context(), "GET", "/x", nil, &struct{}{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
		var status *StatusError
		if errors.As(err, &status) != (strings.HasPrefix(text, "HTTP/1.1 ") && !strings.HasPrefix(text, "HTTP/1.1 200")) {
			t.Errorf("%.60q: %v", text, err)
		}
		_ = c.Close()
	}
}

// A context that is done ends a request that isn't answered, and one that isn't read.
func TestContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	childtest.Must(t, err)
	defer l.Close() // nothing is read
	for _, body := range []any{nil, strings.Repeat("x", api.MaxBody-10)} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		c := Client{Address: path}
		if err := c.Do(ctx, "POST", "/x", body, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		cancel()
	}
	c := Client{Address: path}
	if err := c.Do(t.Context(), "POST", "/x", strings.Repeat("x", api.MaxBody), nil); err == nil || !strings.Contains(err.Error(), "8388608") {
		t.Errorf("a long body: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answering(t, path, "")
	c, err := Dial(t.Context(), path)
	childtest.Must(t, err)
	childtest.Must(t, c.Close())
	if _, err := Dial(t.Context(), path+"x"); !errors.Is(err, ErrNobody) || !strings.Contains(err.Error(), path+"x") {
		t.Error(err)
	}
	for address, want := range map[string]string{
		"fd:": "neither a path nor fd:N", "fd:x": "neither a path nor fd:N", "fd:-1": "neither a path nor fd:N", "fd:+3": "neither a path nor fd:N",
		"fd:0": "isn't a session's descriptor", "fd:1000000": "isn't a session's descriptor",
	} {
		if _, err := Dial(t.Context(), address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// All sessions are found on whose sockets a process listens, and those of toolguardd that serve calls. A folder that is rejected doesn't keep others
// out.
func TestSockets(t *testing.T) {
	dir := t.TempDir()
	run, state, open := dir+"/run/toolguard", dir+"/state/toolguard/run", dir+"/open"
	childtest.Must(t, os.Mkdir(open, 0o755))
	for session, folder := range map[string]string{"one": run, "two": state, "three": state} {
		l, err := socket.Listen([]string{folder}, session)
		childtest.Must(t, err)
		defer l.Close()
	}
	daemon, mute := dir+"/daemon", dir+"/mute"
	const sessions = `[{"id":"two","calls":true},{"id":"four","calls":true},{"id":"five"}]`
	answering(t, daemon, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(sessions), sessions))
	answering(t, mute, "")
	own := []Found{{run + "/one.sock", "one", false}, {state + "/three.sock", "three", false}, {state + "/two.sock", "two", false}}
	for d, want := range map[string][]Found{daemon: append(slices.Clone(own), Found{daemon, "four", true}), mute: own, dir + "/none": own} {
		if got, err := sockets(t.Context(), []string{run, state}, d); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := sockets(t.Context(), []string{open, run}, mute); err == nil || !strings.Contains(err.Error(), "chmod 700") || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
