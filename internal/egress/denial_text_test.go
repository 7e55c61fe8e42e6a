package egress

import (
	"slices"
	"strings"
	"testing"
)

// Reports have the client's text, but of limited length, and without text that isn't a name.
func TestDenialTextLimit(t *testing.T) {
	w, _ := newWeb(t)
	w.resolve("a.com", a4)
	statuses, _ := sendHTTP(t, w.dial("203.0.113.1:80"), "GET /admin/"+strings.Repeat("x", 10*maxText)+" HTTP/1.1\r\nHost: a.com\r\n\r\n")
	if a := &w.takeDenials()[0].Answer; !slices.Equal(statuses, []int{403}) || len(a.Target)+len(a.Note)+len(a.Suggest) > 3*maxText || !strings.HasPrefix(a.Target, "http://a.com:80/admin/xx") {
		t.Errorf("%d, reported %+v", statuses, a)
	}
	w.resolve("user:SECRET@a.com", a4)
	if a := &w.takeDenials()[0].Answer; strings.Contains(a.Note, "SECRET") {
		t.Errorf("reported %+v", a)
	}
}
