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

// A response that there's no room for ends the request, though its body is still to come.
func TestNoRoomForReply(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	w.zone.set("a.com", "203.0.113.1")
	l := w.listen("203.0.113.1:80")
	go nettest.Accept(l, func(c net.Conn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", shortHead)+"\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, c)
	})
	w.start()
	w.resolve("a.com", a4)
	if _, err := w.s.budget.take(maxHeld); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n9\r\nhalf"} {
		c := w.dial("203.0.113.1:80")
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.com\r\n"+body)
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 503 {
			t.Errorf("%q: %v %v", body, resp, err)
		}
		w.wantTold("limit http://a.com:80/")
		c.Close()
	}
}
