package http1

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
)

func head(text string) (*Head, error) {
	return ReadHead(bufio.NewReaderSize(strings.NewReader(text), MaxHead))
}

func TestReadHead(t *testing.T) {
	h, err := head("POST /v1/calls/a%20b/result?wait_ms=5&x=%25 HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nconnection: Close\r\n" +
		"Expect: 100-continue\r\nToolguard-Uid: 7\r\nX-Other:\ty \r\n\r\nbody")
	if err != nil {
		t.Fatal(err)
	}
	if h.Method != "POST" || h.Path != "/v1/calls/a b/result" || h.Length != 12 || !h.Close || !h.Expect ||
		!maps.Equal(h.Query, map[string]string{"wait_ms": "5", "x": "%"}) || !maps.Equal(h.Fields, map[string]string{"toolguard-uid": "7"}) {
		t.Errorf("%+v", h)
	}
}

// malformed are requests with the statuses that they are answered with.
var malformed = map[string]int{
	"\r\n":                                          400,
	"GET /\r\n":                                     400,
	"GET / HTTP/1.1 x\r\nHost: h\r\n":               400,
	"GET  /a HTTP/1.1\r\n":                          400,
	"GET /a HTTP/1.0\r\nHost: h\r\n":                505,
	"GET /a HTTP/2\r\n":                             505,
	"get /a HTTP/1.1\r\n":                           501,
	"CONNECT h:1 HTTP/1.1\r\n":                      501,
	"HEAD /a HTTP/1.1\r\n":                          501,
	"GET a HTTP/1.1\r\n":                            400,
	"GET / HTTP/1.1\r\n":                            400,
	"GET * HTTP/1.1\r\n":                            400,
	"GET http://h/a HTTP/1.1\r\n":                   400,
	"GET //a HTTP/1.1\r\n":                          400,
	"GET /a/ HTTP/1.1\r\n":                          400,
	"GET /a/../b HTTP/1.1\r\n":                      400,
	"GET /a/%2e%2e/b HTTP/1.1\r\n":                  400,
	"GET /a/. HTTP/1.1\r\n":                         400,
	"GET /a%2fb HTTP/1.1\r\n":                       400,
	"GET /a%00 HTTP/1.1\r\n":                        400,
	"GET /a%ff HTTP/1.1\r\n":                        400,
	"GET /a%zz HTTP/1.1\r\n":                        400,
	"GET /a#b HTTP/1.1\r\n":                         400,
	"GET /a?b=1&b=2 HTTP/1.1\r\n":                   400,
	"GET /a?b=%zz HTTP/1.1\r\n":                     400,
	"GET /a?b;c HTTP/1.1\r\n":                       400,
	"GET /a?b=%0a HTTP/1.1\r\n":                     400,
	"GET /a\x01 HTTP/1.1\r\n":                       400,
	"GET /a HTTP/1.1\nHost: h\n\n":                  400,
	"GET /a HTTP/1.1\r\n\r\n":                       400, // no Host
	"GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n": 400,
	"GET /a HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n": 400,
	"GET /a HTTP/1.1\r\nHost : h\r\n\r\n":           400,
	"GET /a HTTP/1.1\r\nno colon\r\n\r\n":           400,
	"GET /a HTTP/1.1\r\nHost: h\x00\r\n\r\n":        400,
	"GET /a HTTP/1.1\r\nHost: h\rX: y\r\n\r\n":      400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n":              400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n":              400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n":                                  400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n":                                  400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\n":                                 400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 01\r\n\r\n":                                  400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n":                                400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n":                400,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n":                                     400,
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n":                          411,
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n":         411,
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n":                         411,
	"POST /a HTTP/1.1\r\nHost: h\r\nExpect: magic\r\n\r\n":                                       417,
	"GET /a HTTP/1.1\r\nHost: h\r\nToolguard-Uid: 0\r\nToolguard-Uid: 1\r\n\r\n":                 400,
	"GET /" + strings.Repeat("a", MaxHead) + " HTTP/1.1\r\n":                                     431,
	"GET /a HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X: "+strings.Repeat("y", 900)+"\r\n", 20): 431,
}

func TestMalformedHeads(t *testing.T) {
	for text, status := range malformed {
		h, err := head(text)
		var e *Error
		if !errors.As(err, &e) || e.Status != status || e.Why == "" {
			t.Errorf("%.80q: %+v, %v; want status %d", text, h, err, status)
		}
	}
}

// A request that isn't complete is the error of reading. Only a connection without one is io.EOF.
func TestTruncatedHeads(t *testing.T) {
	const whole = "POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
	for n := range len(whole) {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := head(whole[:n]); err != want {
			t.Errorf("%q: %v, want %v", whole[:n], err, want)
		}
	}
	if _, err := head(whole); err != nil {
		t.Error(err)
	}
}

// Whatever is accepted is in one form, and a head that is written from it is read the same.
func FuzzReadHead(f *testing.F) {
	for text := range malformed {
		f.Add(text)
	}
	f.Add("GET /a/b%20c?d=e HTTP/1.1\r\nHost: h\r\nToolguard-Pid: 1\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := bufio.NewReaderSize(strings.NewReader(text), MaxHead)
		h, err := ReadHead(in)
		if err != nil {
			return
		}
		rest, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		read := text[:len(text)-len(rest)]
		if !strings.HasSuffix(read, "\r\n\r\n") || len(read) > MaxHead {
			t.Errorf("the head ends at %q", read)
		}
		for part := range strings.SplitSeq(h.Path[1:], "/") {
			if part == "" || part == "." || part == ".." || !isText(part) {
				t.Errorf("%q is accepted as path %q", read, h.Path)
			}
		}
		lower := strings.ToLower(read)
		if h.Length < 0 || h.Length > 0 && !strings.Contains(lower, "content-length:") || strings.Contains(lower, "\ntransfer-encoding:") {
			t.Errorf("%q has a body of %d bytes", read, h.Length)
		}
		if again, err := head(read); err != nil || again.Path != h.Path || again.Length != h.Length || !maps.Equal(again.Query, h.Query) {
			t.Errorf("%q: %+v, then %+v, %v", read, h, again, err)
		}
	})
}
