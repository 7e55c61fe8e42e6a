package egress

import (
	"slices"
	"strings"
	"testing"
)

// What a client says is told, but not at any length, and not what isn't a name.
func TestToldBound(t *testing.T) {
	w, _ := newWeb(t)
	w.resolve("a.com", a4)
	statuses, _ := say(t, w.dial("203.0.113.1:80"), "GET /admin/"+strings.Repeat("x", 10*maxText)+" HTTP/1.1\r\nHost: a.com\r\n\r\n")
	w.mu.Lock()
	if a := &w.denials[0].Answer; !slices.Equal(statuses, []int{403}) || len(a.Target)+len(a.Note)+len(a.Suggest) > 3*maxText || !strings.HasPrefix(a.Target, "http://a.com:80/admin/xx") {
		t.Errorf("%d, told %+v", statuses, a)
	}
	w.mu.Unlock()
	w.forget()
	w.resolve("user:SECRET@a.com", a4)
	w.mu.Lock()
	if a := &w.denials[0].Answer; strings.Contains(a.Note, "SECRET") {
		t.Errorf("told %+v", a)
	}
	w.mu.Unlock()
}
