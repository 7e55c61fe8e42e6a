package egress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/nettest"
)

// A response without memory ends the request, even while its body is being sent.
func TestNoMemoryForResponse(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	go nettest.Accept(w.listen("203.0.113.1:80"), func(c net.Conn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", shortHead)+"\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, c)
	})
	w.start("a.com")
	if _, err := w.s.budget.reserve(maxBudget); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n9\r\nhalf"} {
		c := w.dial("203.0.113.1:80")
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.com\r\n"+body)
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 503 {
			t.Errorf("%q: %v %v", body, resp, err)
		}
		w.wantDenials("limit http://a.com:80/")
		c.Close()
	}
}

// A head has only characters that every server parses alike, and its parts have limited sizes.
func TestHeadLimits(t *testing.T) {
	const line = "GET / HTTP/1.1"
	for head, ok := range map[string]bool{
		line:                   true,
		"GET /!~ HTTP/1.1":     true,
		"GET /\t HTTP/1.1":     false,
		"GET /\x1f HTTP/1.1":   false,
		"GET /\x7f HTTP/1.1":   false,
		"GET /\u00e9 HTTP/1.1": false,
		"GET /# HTTP/1.1":      false,
		" / HTTP/1.1":          false,
		strings.Repeat("Z", maxMethod) + " / HTTP/1.1":          true,
		strings.Repeat("Z", maxMethod+1) + " / HTTP/1.1":        false,
		line + "\r\nAZaz09`: x":                                 true,
		line + "\r\nA/: x":                                      false,
		line + "\r\nA@: x":                                      false,
		line + "\r\nA[: x":                                      false,
		line + "\r\nA{: x":                                      false,
		line + strings.Repeat("\r\nA: x", maxFields):            true,
		line + strings.Repeat("\r\nA: x", maxFields+1):          false,
		line + "\r\nContent-Length: " + strings.Repeat("1", 18): true,
		line + "\r\nContent-Length: " + strings.Repeat("1", 19): false,
	} {
		if _, err := parseHead([]byte(head + "\r\n\r\n")); (err == nil) != ok {
			t.Errorf("%.60q: %v", head, err)
		}
	}
}
