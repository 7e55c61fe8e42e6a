package egress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// cdn is a server for all names that notes its requests.
type cdn struct {
	mu   sync.Mutex
	seen []string // "METHOD URI HOST BODY"
}

func (c *cdn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.seen = append(c.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Host, body)))
	c.mu.Unlock()
	fmt.Fprint(w, "hello")
}

// takeRequests returns the requests since the last call.
func (c *cdn) takeRequests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.seen
	c.seen = nil
	return l
}

// webRules are rules for names that all lead to 203.0.113.1.
var webRules = []policy.NetRule{
	{Host: "a.com", Scheme: "http", Allow: true},
	{Host: "a.com", Scheme: "http", PathPrefix: "/admin"},
	{Host: "api.com", Scheme: "http", PathPrefix: "/v1", Methods: []string{"GET", "POST"}, Allow: true},
	{Host: "api.com", Scheme: "http", PathPrefix: "/v1/ro", Methods: []string{"POST"}},
	{Host: "ws.com", Scheme: "ws", Allow: true},
	{Host: "alt.com", Scheme: "http", Port: 8080, Allow: true},
	{Host: "evil.com"},
	{Host: "*.wild.com", Scheme: "http", Allow: true},
	{Host: "elsewhere.com", Scheme: "http", Allow: true},
	{Host: "203.0.113.50", Scheme: "http", PathPrefix: "/", Allow: true},
}

func newWeb(t *testing.T) (*world, *cdn) {
	w, c := newWorld(t, webRules...), &cdn{}
	for _, n := range []string{"a.com", "api.com", "ws.com", "alt.com", "evil.com", "unlisted.com", "x.wild.com"} {
		w.zone.set(n, "203.0.113.1")
	}
	w.zone.set("elsewhere.com", "203.0.113.2")
	for _, to := range []string{"203.0.113.1:80", "203.0.113.1:8080", "203.0.113.50:80"} {
		w.serve(to, c)
	}
	return w.start(), c
}

// wantStatus fails unless a request of a step is answered with one status.
func (w *world) wantStatus(step, to, text string, want int) {
	w.t.Helper()
	if statuses, bodies := sendHTTP(w.t, w.dial(to), text); !slices.Equal(statuses, []int{want}) {
		w.t.Errorf("%s: %d %q, want %d", step, statuses, bodies, want)
	}
}

// getRequest is a request for a host's root.
func getRequest(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }

// sendHTTP sends text on a connection and returns the status and body of every response, until the connection ends.
func sendHTTP(t testing.TB, c net.Conn, text string) (statuses []int, bodies []string) {
	t.Helper()
	method, _, _ := strings.Cut(text, " ")
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	in := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return statuses, bodies
		}
		b, err := io.ReadAll(resp.Body)
		must(t, err)
		statuses, bodies = append(statuses, resp.StatusCode), append(bodies, string(b))
	}
}

func TestRequests(t *testing.T) {
	w, c := newWeb(t)
	for _, x := range []struct {
		name, to, text string
		status         string // of each response
		took, reported []string
	}{
		{"plain", "203.0.113.1:80", "GET /x?y HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", []string{"GET /x?y a.com"}, nil},
		{"not resolved, but true", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: x.wild.com\r\n\r\n", "200", []string{"GET / x.wild.com"}, nil},
		{"another address", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: elsewhere.com\r\n\r\n", "403", nil, []string{"host_mismatch http://elsewhere.com:80/"}},
		{"upper case, dot and port", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: A.cOm.:80\r\n\r\n", "200", []string{"GET / a.com"}, nil},
		{"another port in Host", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: alt.com:8080\r\n\r\n", "403", nil, []string{"host_mismatch http://alt.com:8080/"}},
		{"its port", "203.0.113.1:8080", "GET / HTTP/1.1\r\nHost: alt.com:8080\r\n\r\n", "200", []string{"GET / alt.com:8080"}, nil},
		{"without its port", "203.0.113.1:8080", "GET / HTTP/1.1\r\nHost: alt.com\r\n\r\n", "200", []string{"GET / alt.com:8080"}, nil},
		{"not listed", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: unlisted.com\r\n\r\n", "403", nil, []string{"host_not_listed http://unlisted.com:80/"}},
		{"denied", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "403", nil, []string{"rule_denies net.7 http://evil.com:80/"}},
		{"the address itself", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: 203.0.113.1\r\n\r\n", "403", nil, []string{"host_not_listed http://203.0.113.1:80/"}},
		{"a granted address", "203.0.113.50:80", "GET / HTTP/1.1\r\nHost: 203.0.113.50\r\n\r\n", "200", []string{"GET / 203.0.113.50"}, nil},
		{"a granted address by any name", "203.0.113.50:80", "GET / HTTP/1.1\r\nHost: unlisted.com\r\n\r\n", "200", []string{"GET / unlisted.com"}, nil},
		{"a granted address by a denied name", "203.0.113.50:80", "GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "403", nil, []string{"rule_denies net.7 http://evil.com:80/"}},
		{"a granted address from another", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: 203.0.113.50\r\n\r\n", "403", nil, []string{"host_mismatch http://203.0.113.50:80/"}},
		{"a denied path", "203.0.113.1:80", "GET /admin/x HTTP/1.1\r\nHost: a.com\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/admin/x"}},
		{"a denied path, encoded", "203.0.113.1:80", "GET /%61dmin HTTP/1.1\r\nHost: a.com\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/%61dmin"}},
		{"a denied path, by dots", "203.0.113.1:80", "GET /x/%2e%2e/admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/x/%2e%2e/admin"}},
		{"a denied path, by slashes", "203.0.113.1:80", "GET //admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80//admin"}},
		{"a denied path, as a URL", "203.0.113.1:80", "GET http://a.com/admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/admin"}},
		{"a denied path, in a field", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\nX-Original-URL: /admin\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/admin"}},
		{"another path, in a field", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\nX-Rewrite-URL: http://x/y\r\n\r\n", "200", []string{"GET / a.com"}, nil},
		{"another method, in a field", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nContent-Length: 0\r\nX_HTTP_Method-Override: delete\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v1/x"}},
		{"a granted method, in a field", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nContent-Length: 0\r\nX-HTTP-Method-Override: GET\r\n\r\n", "200", []string{"POST /v1/x api.com"}, nil},
		{"another method, in a field that CGI takes for it", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nContent-Length: 0\r\nX.HTTP!Method*Override: DELETE\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v1/x"}},
		{"from where nothing may be deleted", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nContent-Length: 0\r\nX-MS-Rename-Source: /v1/y\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v1/y"}},
		{"a query is no path", "203.0.113.1:80", "GET /?/admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", []string{"GET /?/admin a.com"}, nil},
		{"a granted path and method", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nContent-Length: 2\r\n\r\nhi", "200", []string{"POST /v1/x api.com hi"}, nil},
		{"another path", "203.0.113.1:80", "GET /v2 HTTP/1.1\r\nHost: api.com\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v2"}},
		{"another method", "203.0.113.1:80", "DELETE /v1/x HTTP/1.1\r\nHost: api.com\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v1/x"}},
		{"up and away", "203.0.113.1:80", "GET /v1/../v2 HTTP/1.1\r\nHost: api.com\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v1/../v2"}},
		{"HEAD", "203.0.113.1:80", "HEAD / HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", []string{"HEAD / a.com"}, nil},
		{"HEAD denied", "203.0.113.1:80", "HEAD / HTTP/1.1\r\nHost: unlisted.com\r\n\r\n", "403", nil, []string{"host_not_listed http://unlisted.com:80/"}},
		{"as a URL", "203.0.113.1:80", "GET http://a.com/x?y HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", []string{"GET /x?y a.com"}, nil},
		{"as a URL, another Host", "203.0.113.1:80", "GET http://a.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", "400", nil, []string{"host_mismatch http://203.0.113.1:80"}},
		{"as a URL without a path", "203.0.113.1:80", "GET http://a.com?y HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", []string{"GET /?y a.com"}, nil},
		{"another kind of URL", "203.0.113.1:80", "GET ftp://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "400", nil, []string{"host_mismatch http://203.0.113.1:80"}},
		{"options of the server", "203.0.113.1:80", "OPTIONS * HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", nil, nil},
		{"chunked", "203.0.113.1:80", "POST / HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0;x=y\r\n\r\n", "200", []string{"POST / a.com hi"}, nil},
		{
			"kept alive", "203.0.113.1:80", "GET /1 HTTP/1.1\r\nHost: a.com\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x.wild.com\r\nContent-Length: 1\r\n\r\nxGET /3 HTTP/1.1\r\nHost: a.com\r\n\r\n", "200 200 200",
			[]string{"GET /1 a.com", "POST /2 x.wild.com x", "GET /3 a.com"},
			nil,
		},
		{
			"the second denied", "203.0.113.1:80", "GET /1 HTTP/1.1\r\nHost: a.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.com\r\n\r\nGET /3 HTTP/1.1\r\nHost: a.com\r\n\r\n", "200 403",
			[]string{"GET /1 a.com"},
			[]string{"rule_denies net.7 http://evil.com:80/2"},
		},
		{
			"a request in a body", "203.0.113.1:80", "POST /1 HTTP/1.1\r\nHost: a.com\r\nContent-Length: 36\r\n\r\nGET /admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "200",
			[]string{"POST /1 a.com GET /admin HTTP/1.1\r\nHost: a.com"},
			nil,
		},
		{"a WebSocket where http is granted", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "403", nil, []string{"host_not_listed ws://a.com:80/"}},
		{"half an upgrade", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: ws.com\r\nUpgrade: websocket\r\n\r\n", "403", nil, []string{"host_not_listed http://ws.com:80/"}},
		{"two upgrades", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: ws.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n", "403", nil, []string{"host_not_listed http://ws.com:80/"}},
		{"http where a WebSocket is granted", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: ws.com\r\n\r\n", "403", nil, []string{"host_not_listed http://ws.com:80/"}},
		{"CONNECT to the server itself", "203.0.113.1:80", "CONNECT evil.com:80 HTTP/1.1\r\nHost: evil.com:80\r\n\r\n", "403", nil, []string{"host_not_listed tcp://evil.com:80"}},
		{"a proxy that isn't granted", "203.0.113.1:80", "GET http://elsewhere.com/ HTTP/1.1\r\nHost: elsewhere.com\r\n\r\n", "403", nil, []string{"host_not_listed http://elsewhere.com:80/"}},
		{"without a name", "203.0.113.1:80", "GET / HTTP/1.0\r\n\r\n", "200", []string{"GET / a.com"}, nil},
		{"a URL without a name", "203.0.113.1:80", "GET http://a.com/x HTTP/1.0\r\n\r\n", "200", []string{"GET /x a.com"}, nil},
		{"to a denied path", "203.0.113.1:80", "COPY /x HTTP/1.1\r\nHost: a.com\r\nDestination: http://a.com/admin/x\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/admin/x"}},
		{"to a granted path", "203.0.113.1:80", "MOVE /x HTTP/1.1\r\nHost: a.com\r\nDestination: http://a.com/y\r\n\r\n", "200", []string{"MOVE /x a.com"}, nil},
		{"to another host", "203.0.113.1:80", "COPY /x HTTP/1.1\r\nHost: a.com\r\nDestination: http://api.com/x\r\n\r\n", "400", nil, []string{"host_mismatch http://a.com:80"}},
		{"to where nothing may be put", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nDestination: /v1/y\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v1/y"}},
		{"from a path that isn't granted", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nX-Amz-Copy-Source: v2/x\r\n\r\n", "403", nil, []string{"host_not_listed http://api.com:80/v2/x"}},
		{"from a granted path", "203.0.113.1:80", "POST /v1/x HTTP/1.1\r\nHost: api.com\r\nX_Amz-Copy-Source: /v1/ro/x\r\n\r\n", "200", []string{"POST /v1/x api.com"}, nil},
		{"a granted path, in a field", "203.0.113.1:80", "GET /v1/x HTTP/1.1\r\nHost: api.com\r\nX-Original-URL: /v1/ro\r\n\r\n", "200", []string{"GET /v1/x api.com"}, nil},
		{"a path with another method, each granted, in two fields", "203.0.113.1:80", "GET /v1/x HTTP/1.1\r\nHost: api.com\r\nX-HTTP-Method-Override: POST\r\nX-Original-URL: /v1/ro/x\r\n\r\n", "403", nil, []string{"rule_denies net.4 http://api.com:80/v1/ro/x"}},
		{"another name, in HTTP/1.0", "203.0.113.1:80", "GET / HTTP/1.0\r\nHost: evil.com\r\n\r\n", "403", nil, []string{"rule_denies net.7 http://evil.com:80/"}},
		{"as many fields as may be", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n" + strings.Repeat("X-HTTP-Method: GET\r\nX-Amz-Copy-Source: /x\r\n", 4) + "\r\n", "200", []string{"GET / a.com"}, nil},
		{"many second paths", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n" + strings.Repeat("X-Amz-Copy-Source: /x\r\n", 5) + "\r\n", "400", nil, []string{"host_mismatch http://203.0.113.1:80"}},
		{"many fields", "203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n" + strings.Repeat("X-HTTP-Method: GET\r\n", 5) + "\r\n", "400", nil, []string{"host_mismatch http://203.0.113.1:80"}},
	} {
		w.resolve("a.com", a4)
		if known, ok := map[string]string{"a proxy that isn't granted": "ws.com", "without a name": "a.com", "CONNECT to the server itself": "a.com"}[x.name]; ok {
			w.clearNames() // the address must have one name
			w.resolve(known, a4)
		}
		e := exchange{x.name, x.text, x.status, x.took, x.reported}
		e.check(w, w.dial(x.to), c)
		if got := w.reported(); !slices.Equal(got, x.reported) {
			t.Errorf("%s: reported %q, want %q", x.name, got, x.reported)
		}
		w.takeDenials()
	}
}

// Heads that servers could parse differently never reach one.
func TestSmuggling(t *testing.T) {
	w, c := newWeb(t)
	w.resolve("a.com", a4)
	post := "POST / HTTP/1.1\r\nHost: a.com\r\n"
	for name, text := range map[string]string{
		"both lengths":          post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":           post + "Content-Length: 2\r\nContent-Length: 5\r\n\r\nhello",
		"two equal lengths":     post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
		"a list of lengths":     post + "Content-Length: 2, 2\r\n\r\nhi",
		"a signed length":       post + "Content-Length: +2\r\n\r\nhi",
		"a hexadecimal length":  post + "Content-Length: 0x2\r\n\r\nhi",
		"no length":             post + "Content-Length: \r\n\r\n",
		"an endless length":     post + "Content-Length: 99999999999999999999\r\n\r\n",
		"two codings":           post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"a coding twice":        post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"another coding":        post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"a hidden coding":       post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"a coding in HTTP/1.0":  "POST / HTTP/1.0\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"space before a colon":  post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"an underscore":         post + "Content_Length: 5\r\n\r\nhello",
		"a dot":                 post + "Content.Length: 5\r\n\r\nhello",
		"a path for CGI":        "GET / HTTP/1.1\r\nHost: a.com\r\nPath*Info: /admin\r\n\r\n",
		"a divided path":        "GET /x/admin HTTP/1.1\r\nHost: a.com\r\nSCRIPT_NAME: /x\r\n\r\n",
		"a continued line":      post + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n",
		"an empty line first":   "\r\n" + post + "Content-Length: 0\r\n\r\n",
		"a tab first":           "POST / HTTP/1.1\r\n\tHost: a.com\r\n\r\n",
		"LF alone":              "POST / HTTP/1.1\nHost: a.com\n\n",
		"LF in between":         "POST / HTTP/1.1\r\nHost: a.com\nX: y\r\n\r\n",
		"LF at the end":         "POST / HTTP/1.1\r\nHost: a.com\r\n\n",
		"CR alone":              "POST / HTTP/1.1\r\nHost: a.com\r\nX: y\rHost: evil.com\r\n\r\n",
		"CR before CRLF":        "POST / HTTP/1.1\r\nHost: a.com\r\r\n\r\n",
		"NUL":                   post + "X: y\x00z\r\n\r\n",
		"two hosts":             post + "Host: a.com\r\n\r\n",
		"no host":               "GET / HTTP/1.1\r\n\r\n",
		"an empty host":         "GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"a host with a path":    "GET / HTTP/1.1\r\nHost: a.com/admin\r\n\r\n",
		"a host with a user":    "GET / HTTP/1.1\r\nHost: evil.com@a.com\r\n\r\n",
		"a host with a query":   "GET /x HTTP/1.1\r\nHost: a.com?\r\n\r\n",
		"two hosts in one":      "GET / HTTP/1.1\r\nHost: a.com, evil.com\r\n\r\n",
		"an encoded host":       "GET / HTTP/1.1\r\nHost: a%2ecom\r\n\r\n",
		"two ports":             "GET / HTTP/1.1\r\nHost: a.com:80:80\r\n\r\n",
		"no name of a field":    post + ": y\r\n\r\n",
		"a name in quotes":      post + "\"X\": y\r\n\r\n",
		"a length for one hop":  post + "Content-Length: 2\r\nConnection: close, content-length\r\n\r\nhi",
		"a path in a field":     post + "X-Original-URL: /%zz\r\n\r\n",
		"no colon":              post + "X\r\n\r\n",
		"two spaces":            "GET  / HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"a space in the target": "GET /x /y HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"a tab in the target":   "GET /x\t/y HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"a fragment":            "GET /x#/../admin HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"a backslash":           "GET /x\\..\\admin HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"bytes beyond ASCII":    "GET /\xc0\xaeadmin HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"a bad escape":          "GET /%zz HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"no slash":              "GET x HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"a version of its own":  "GET / HTTP/1.2\r\nHost: a.com\r\n\r\n",
		"a star for GET":        "GET * HTTP/1.1\r\nHost: a.com\r\n\r\n",
		"too long":              post + "X: " + strings.Repeat("y", maxHead) + "\r\n\r\n",
		"too many fields":       post + strings.Repeat("X: y\r\n", maxFields+1) + "\r\n",
	} {
		w.wantStatus(name, "203.0.113.1:80", text, http.StatusBadRequest)
		if got := c.takeRequests(); len(got) > 0 {
			t.Errorf("%s: the server got %q", name, got)
		}
		if got := w.takeDenials(); len(got) != 1 || got[0].Answer.Reason != policy.HostMismatch || got[0].Answer.Note == "" {
			t.Errorf("%s: reported %+v", name, got)
		}
	}
	for _, text := range []string{post + "Content-Length: 2\r\n\r\nhi", post + "X_Y: z\r\nX:\r\n\r\n"} { // control
		w.wantStatus("control", "203.0.113.1:80", text, 200)
	}
}

// Chunks that servers could parse differently end both connections, and no server gets a complete request.
func TestBadChunks(t *testing.T) {
	w, c := newWeb(t)
	w.resolve("a.com", a4)
	head := "POST / HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n"
	next := "GET /next HTTP/1.1\r\nHost: a.com\r\n\r\n"
	for name, body := range map[string]string{
		"LF after a size":    "2\nhi\r\n0\r\n\r\n",
		"no CRLF after data": "2\r\nhixx0\r\n\r\n",
		"a signed size":      "+2\r\nhi\r\n0\r\n\r\n",
		"0x":                 "0x2\r\nhi\r\n0\r\n\r\n",
		"an endless size":    "fffffffffffffffff\r\nhi\r\n0\r\n\r\n",
		"a field at the end": "2\r\nhi\r\n0\r\nHost: evil.com\r\n\r\n",
		"LF at the end":      "2\r\nhi\r\n0\r\n\n",
		"cut":                "2\r\nh",
	} {
		if statuses, _ := sendHTTP(t, w.dial("203.0.113.1:80"), head+body+next); slices.Contains(statuses, 200) {
			t.Errorf("%s: %v", name, statuses)
		}
		if got := c.takeRequests(); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "GET") }) {
			t.Errorf("%s: the server got %q", name, got)
		}
		w.wantDenials("host_mismatch http://a.com:80")
	}
	if statuses, _ := sendHTTP(t, w.dial("203.0.113.1:80"), head+"2\r\nhi\r\n0\r\n\r\n"+next); !slices.Equal(statuses, []int{200, 200}) {
		t.Errorf("control: %v", statuses)
	}
}

// The server gets the request as it was decided on, in one form.
func TestRewrite(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	l := w.listen("203.0.113.1:80")
	w.start("a.com")
	c := w.dial("203.0.113.1:80")
	io.WriteString(c, "POST http://A.COM./x%20y?q HTTP/1.1\r\nHost:A.com.:80\r\nx-Lower:  v \r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nConnection: Upgrade,,keep-alive, ,x\r\nTransfer-Encoding: CHUNKED\r\n\r\n"+
		"2;ext=1\r\nhi\r\n0;ext\r\n\r\n")
	s, err := l.Accept()
	must(t, err)
	defer s.Close()
	want := "POST /x%20y?q HTTP/1.1\r\nHost: a.com\r\nConnection: close\r\nx-Lower: v\r\nConnection: Upgrade, x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
	got := make([]byte, len(want))
	s.SetReadDeadline(time.Now().Add(testTimeout))
	if n, err := io.ReadFull(s, got); err != nil || string(got) != want {
		t.Errorf("%v: %q, want %q", err, got[:n], want)
	}
}

// A response that ends before the request reaches the client at once, including its end.
func TestEarlyResponses(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	rest := make(chan error)
	go nettest.Accept(w.listen("203.0.113.1:80"), func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err == nil {
			io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
			_, err = in.ReadByte()
			rest <- err
		}
	})
	w.start("a.com")
	for _, more := range []string{"Content-Length: 100\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n"} {
		c := w.dial("203.0.113.1:80")
		begun := time.Now()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.com\r\n"+more)
		b, err := io.ReadAll(c) // including its end, while the request goes on
		if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 413 ") || !strings.Contains(string(b), "Connection: close\r\n") || !strings.HasSuffix(string(b), "big") {
			t.Errorf("%q: %v %q", more, err, b)
		}
		t.Logf("%q: all after %s", more, time.Since(begun))
		io.WriteString(c, "1\r\ny\r\n") // which goes on
		if err := <-rest; err != nil {
			t.Errorf("%q: the request has ended too: %v", more, err)
		}
		c.Close()
		eventually(w.isIdle)
	}
}

// A server that doesn't read the body of a request would parse it as the next request, on which nothing has decided. It gets none.
func TestUnreadBodies(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "a.com", Scheme: "http", PathPrefix: "/open", Allow: true})
	var mu sync.Mutex
	var paths []string
	go nettest.Accept(w.listen("203.0.113.1:80"), func(c net.Conn) {
		for in, last := bufio.NewReader(c), false; !last; {
			r, err := http.ReadRequest(in) // and not its body
			if err != nil {
				return
			}
			mu.Lock()
			paths = append(paths, r.URL.Path)
			mu.Unlock()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			last = r.Close
		}
	})
	w.start("a.com")
	inner := "GET /shut HTTP/1.1\r\nHost: a.com\r\n\r\n"
	sized := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner)
	for _, x := range []struct{ method, more, connection string }{
		{"GET", sized, ""},
		{"POST", sized, "Connection: keep-alive\r\n"},
		{"GET", sized, "Connection: x, Keep-Alive\r\nx: y\r\n"},
		{"DELETE", sized, "Expect: 100-continue\r\n"},
	} {
		mu.Lock()
		paths = nil
		mu.Unlock()
		c := w.dial("203.0.113.1:80")
		in := bufio.NewReader(c)
		text := x.method + " /open HTTP/1.1\r\nHost: a.com\r\n" + x.connection + x.more
		var early *http.Response
		if strings.Contains(x.more+x.connection, "Expect") { // otherwise the response comes after the body
			io.WriteString(c, text[:len(text)-1])
			early, _ = http.ReadResponse(in, nil)
			text = text[len(text)-1:]
		}
		io.WriteString(c, text+"GET /open/next HTTP/1.1\r\nHost: a.com\r\nConnection: close\r\n\r\n")
		requests, _ := io.ReadAll(in)
		mu.Lock()
		if slices.Contains(paths, "/shut") || !slices.Contains(paths, "/open") || early == nil && !slices.Equal(paths, []string{"/open", "/open/next"}) {
			t.Errorf("%s %q: the server gets requests for %q: %q", x.method, x.connection, paths, requests)
		}
		mu.Unlock()
		c.Close()
	}
}

// Programs can parse the body of a denial.
func TestErrorBody(t *testing.T) {
	w, _ := newWeb(t)
	w.resolve("a.com", a4)
	resp, err := w.client().Post("http://a.com/admin/users?token=secret", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
	must(t, err)
	defer resp.Body.Close()
	var got errorBody
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 403 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v: %+v", err, resp)
	}
	want := errorBody{
		Error: "denied by toolguard", Reason: "rule_denies", Target: "http://a.com:80/admin/users", Method: "POST", Rule: "net.2", Place: "p.toml:2:1", Authority: "session",
		Allow: "[[access.net]]\nhost = \"a.com\"\nscheme = \"http\"\npath_prefix = \"/admin/users\"\nmethods = [\"POST\"]\nallow = true\n",
	}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	c := w.dial("203.0.113.1:80")
	io.WriteString(c, "HEAD /admin HTTP/1.1\r\nHost: a.com\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 403 ") || !strings.HasSuffix(string(got), "\r\n\r\n") {
		t.Errorf("HEAD: %v %q", err, got)
	}
	denials := w.takeDenials()
	if len(denials) != 2 {
		t.Fatalf("reported %+v", denials)
	}
	if d := denials[0]; d.Method != "POST" || d.Protocol != "http" || d.To.String() != "203.0.113.1:80" || !d.Client.IsValid() || d.Process != testProcess {
		t.Errorf("reported %+v", d)
	}
}

// Unusual responses: without a body, chunked with a trailer, up to the end of the connection, in pieces, after 100.
func TestResponses(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	released := make(chan bool)
	w.serve("203.0.113.1:80", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/304":
			rw.WriteHeader(304)
		case "/trailer":
			rw.Header().Set("Trailer", "X-Sum")
			rw.Write([]byte("abc"))
			rw.(http.Flusher).Flush()
			rw.Header().Set("X-Sum", "7")
		case "/stream":
			rw.Write([]byte("one"))
			rw.(http.Flusher).Flush()
			<-released
			rw.Write([]byte("two"))
		case "/close":
			c, _, _ := rw.(http.Hijacker).Hijack()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX: y\r\n\r\nto the end")
			c.Close()
		case "/early":
			rw.WriteHeader(413)
		case "/big":
			rw.Header().Set("Content-Length", fmt.Sprint(5<<20))
			rw.Write(bytes.Repeat([]byte("x"), 5<<20))
		default:
			b, _ := io.ReadAll(r.Body)
			fmt.Fprint(rw, len(b))
		}
	}))
	w.start()
	cl := w.client()
	get := func(path string) (*http.Response, string) {
		t.Helper()
		resp, err := cl.Get("http://a.com" + path)
		must(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return resp, string(b)
	}
	if resp, body := get("/304"); resp.StatusCode != 304 || body != "" {
		t.Errorf("%+v", resp)
	}
	if resp, body := get("/trailer"); body != "abc" || resp.Trailer.Get("X-Sum") != "7" {
		t.Errorf("%q %+v", body, resp.Trailer)
	}
	if resp, body := get("/close"); body != "to the end" || resp.Header.Get("X") != "y" {
		t.Errorf("%q %+v", body, resp)
	}
	if _, body := get("/big"); len(body) != 5<<20 {
		t.Errorf("%d bytes", len(body))
	}
	resp, err := cl.Get("http://a.com/stream")
	must(t, err)
	b := make([]byte, 3)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "one" { // while the server still waits
		t.Errorf("%v %q", err, b)
	}
	close(released)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "two" {
		t.Errorf("%v %q", err, rest)
	}
	req, _ := http.NewRequest("POST", "http://a.com/", strings.NewReader("body"))
	req.Header.Set("Expect", "100-continue")
	if resp, err := cl.Do(req); err != nil {
		t.Error(err)
	} else if b, _ := io.ReadAll(resp.Body); string(b) != "4" {
		t.Errorf("after 100: %q", b)
	}
	for _, body := range []io.Reader{io.LimitReader(zeros{}, 8<<20), bytes.NewReader(make([]byte, 8<<20))} { // chunked, and of a known length
		resp, err = cl.Post("http://a.com/early", "", body)
		if err != nil || resp.StatusCode != 413 {
			t.Errorf("a response before the end of the request: %v %+v", err, resp)
		}
	}
	resp, err = cl.Post("http://a.com/", "", bytes.NewReader(make([]byte, 8<<20)))
	must(t, err)
	if b, _ := io.ReadAll(resp.Body); string(b) != "8388608" {
		t.Errorf("a long body: %q", b)
	}
	if n := w.dials(); n > 7 {
		t.Errorf("connections aren't kept: there are %d", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// After the server has closed an idle connection, egress dials it again, and the client doesn't notice.
func TestStaleServer(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	closed := make(chan bool)
	go nettest.Accept(w.listen("203.0.113.1:80"), func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") // and closes the connection without notice
		c.Close()
		closed <- true
	})
	w.start("a.com")
	c := w.dial("203.0.113.1:80")
	in := bufio.NewReader(c)
	for range 3 {
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.com\r\nContent-Length: 0\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hi" {
			t.Errorf("%v %q", err, b)
		}
		<-closed
		time.Sleep(50 * time.Millisecond) // until the FIN has arrived
	}
}

// Malformed responses are not forwarded.
func TestBadServers(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	var response string
	got := make(chan string, 9)
	go nettest.Accept(w.listen("203.0.113.1:80"), func(c net.Conn) {
		in := bufio.NewReader(c)
		http.ReadRequest(in)
		io.WriteString(c, response)
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		rest, _ := io.ReadAll(in)
		got <- string(rest)
	})
	w.start("a.com")
	second := "GET /denied HTTP/1.1\r\nHost: evil.com\r\n\r\n"
	for name, text := range map[string]string{
		"an unasked change": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"another upgrade":   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		"many fields":       "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxFields+1) + "Content-Length: 0\r\n\r\n",
		"an endless head":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHead) + "\r\nContent-Length: 0\r\n\r\n",
		"nonsense":          "SMTP\r\n\r\n",
		"two responses":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"nothing":           "",
	} {
		response = text
		ask := "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n"
		if strings.HasSuffix(name, " upgrade") {
			ask = "GET / HTTP/1.1\r\nHost: a.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		}
		statuses, _ := sendHTTP(t, w.dial("203.0.113.1:80"), ask+ask+second)
		want, reported := []int{502}, []string{"host_mismatch " + map[bool]string{false: "http", true: "ws"}[strings.HasSuffix(name, " upgrade")] + "://a.com:80/"}
		switch name {
		case "two responses":
			want, reported = []int{200}, nil
		case "nothing":
			want, reported = nil, nil
		}
		if !slices.Equal(statuses, want) {
			t.Errorf("%s: %v", name, statuses)
		}
		w.wantDenials(reported...)
		if rest := <-got; rest != "" {
			t.Errorf("%s: the server gets the rest: %q", name, rest)
		}
	}
}

// A slow client's connection ends. An idle client costs nothing.
func TestSlowRequests(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	w.s.helloTimeout = time.Second
	w.serve("203.0.113.1:80", &cdn{})
	w.start("a.com")
	texts := []string{"G", "GET / HTTP/1.1\r\nHost: a", "\x16\x03\x01\x02\x00\x01"}
	var slow []net.Conn
	for _, text := range texts {
		c := w.dial("203.0.113.1:80")
		io.WriteString(c, text)
		slow = append(slow, c)
	}
	for i, c := range slow {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the connection doesn't end", texts[i])
		}
	}
	if l := w.takeDenials(); len(l) != len(texts) || slices.ContainsFunc(l, func(d message.Denial) bool { return d.Answer.Reason != policy.Limit }) {
		t.Errorf("reported %+v", l)
	}
	c := w.dial("203.0.113.1:80")
	in := bufio.NewReader(c)
	for range 2 { // idle before the first request, and between two
		time.Sleep(w.s.helloTimeout * 3 / 2)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("an idle client: %v", err)
		}
		io.Copy(io.Discard, resp.Body)
	}
}

func TestWebSocket(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "ws.com", Scheme: "ws", Allow: true})
	w.zone.set("ws.com", "203.0.113.1")
	w.serve("203.0.113.1:80", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			t.Errorf("the server got %+v", r.Header)
		}
		c, in, _ := rw.(http.Hijacker).Hijack()
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nat once")
		io.Copy(c, in)
	}))
	w.start("ws.com")
	c := w.dial("203.0.113.1:80")
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: ws.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %+v", err, resp)
	}
	io.WriteString(c, "GET / is only text here")
	c.CloseWrite()
	if got, err := io.ReadAll(in); string(got) != "at onceGET / is only text here" {
		t.Errorf("%v %q", err, got)
	}
}

// When a server answers a request for a WebSocket as an ordinary one, a rule must grant the ordinary request.
func TestNoWebSocket(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "ws.com", Scheme: "ws", Allow: true}, policy.NetRule{Host: "ws.com", Scheme: "http", PathPrefix: "/both", Allow: true})
	w.zone.set("ws.com", "203.0.113.1")
	w.serve("203.0.113.1:80", &cdn{})
	w.start("ws.com")
	for path, want := range map[string]int{"/both": 200, "/ws": 403} {
		statuses, bodies := sendHTTP(t, w.dial("203.0.113.1:80"), "GET "+path+" HTTP/1.1\r\nHost: ws.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if !slices.Equal(statuses, []int{want}) || want == 403 && strings.Contains(bodies[0], "hello") {
			t.Errorf("%s: %d %q", path, statuses, bodies)
		}
	}
	w.wantDenials("host_not_listed http://ws.com:80/ws")
}

// A request to a proxy is denied if the name in its URL can't be resolved, or if a header field names a denied path.
func TestProxyTargetUnknown(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "web.com", Scheme: "http", Allow: true}, policy.NetRule{Host: "web.com", Scheme: "http", PathPrefix: "/admin"},
		policy.NetRule{Host: "far.com", Scheme: "https", Allow: true}, policy.NetRule{Host: "busy.com", Scheme: "https", Allow: true})
	w.zone.set("web.com", "203.0.113.1")
	w.zone.set("far.com", "203.0.113.2")
	c := &cdn{}
	w.serve("203.0.113.1:80", c)
	w.start("web.com")
	w.wantStatus("a target for a proxy", "203.0.113.1:80", "GET https://far.com/x HTTP/1.1\r\nHost: far.com\r\n\r\n", 200)
	if got := c.takeRequests(); len(got) != 1 {
		t.Errorf("a target for a proxy: the server got %q", got)
	}
	w.wantStatus("a target that may be the server itself", "203.0.113.1:80", "GET https://far.com/x HTTP/1.1\r\nHost: far.com\r\nX-Original-URL: /admin\r\n\r\n", 403)
	w.wantDenials("rule_denies net.2 https://far.com:443/admin")
	for range cap(w.s.lookupSlots) {
		w.s.lookupSlots <- struct{}{}
	}
	w.wantStatus("a name that can't be looked up", "203.0.113.1:80", "GET https://busy.com/ HTTP/1.1\r\nHost: busy.com\r\n\r\n", 403)
	if got := c.takeRequests(); len(got) != 0 {
		t.Errorf("a name that can't be looked up: the server got %q", got)
	}
	w.wantDenials("host_mismatch https://busy.com:443/")
}

// The user information of a URL isn't reported: it may be a password.
func TestUserInformation(t *testing.T) {
	w, c := newWeb(t)
	w.resolve("a.com", a4)
	for _, text := range []string{
		"GET http://bob:SECRET@a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "GET / HTTP/1.1\r\nHost: bob:SECRET@a.com\r\n\r\n",
		"CONNECT bob:SECRET@a.com:80 HTTP/1.1\r\nHost: a.com\r\n\r\n", "GET http://bob:SECRET@[a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
	} {
		statuses, bodies := sendHTTP(t, w.dial("203.0.113.1:80"), text)
		denials := w.takeDenials()
		if reported := fmt.Sprintf("%v %+v", bodies, denials); !slices.Equal(statuses, []int{400}) || len(denials) != 1 || strings.Contains(reported, "SECRET") {
			t.Errorf("%s: %d, reported %s", text, statuses, reported)
		}
	}
	if got := c.takeRequests(); len(got) > 0 {
		t.Errorf("the server got %q", got)
	}
}

// A tunnel through a proxy: the proxy and the tunnel's content are decided on.
func TestProxies(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "proxy.com", Scheme: "http", Port: 3128, Allow: true}, policy.NetRule{Host: "a.com", Scheme: "http", Allow: true}, policy.NetRule{Host: "raw.com", Port: 2525, Allow: true}, policy.NetRule{Host: "b.com", Scheme: "http", Allow: true})
	w.zone.set("proxy.com", "203.0.113.3")
	c := &cdn{}
	w.serve("203.0.113.1:80", c)
	w.serve("203.0.113.3:3128", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != "CONNECT" {
			c.ServeHTTP(rw, r)
			return
		}
		p, in, _ := rw.(http.Hijacker).Hijack()
		io.WriteString(p, "HTTP/1.1 200 Connected\r\n\r\n")
		if strings.HasPrefix(r.Host, "raw.com") {
			io.Copy(p, in)
			p.Close()
			return
		}
		up, err := net.Dial("tcp", w.routes[netip.MustParseAddrPort("203.0.113.1:80")])
		if err != nil { // the end of the test closes a.com's server
			p.Close()
			return
		}
		go func() { io.Copy(up, in); up.(*net.TCPConn).CloseWrite() }()
		io.Copy(p, up)
		p.Close()
	}))
	w.start("proxy.com")
	for _, x := range []exchange{
		{"a request to the proxy", "GET http://a.com/x HTTP/1.1\r\nHost: a.com\r\n\r\n", "200", []string{"GET http://a.com/x a.com"}, nil},
		{"one that isn't granted", "GET http://evil.com/x HTTP/1.1\r\nHost: evil.com\r\n\r\n", "403", nil, []string{"host_not_listed http://evil.com:80/x"}},
		{"a tunnel", connect + "GET /y HTTP/1.1\r\nHost: a.com\r\n\r\n", "200 200", []string{"GET /y a.com"}, nil},
		{"another name inside", connect + "GET /y HTTP/1.1\r\nHost: evil.com\r\n\r\n", "200 403", nil, []string{"host_not_listed http://evil.com:80/y"}},
		{"another granted name inside", connect + "GET /y HTTP/1.1\r\nHost: b.com\r\n\r\n", "200 403", nil, []string{"host_mismatch http://b.com:80/y"}},
		{"the proxy's name inside", connect + "GET /y HTTP/1.1\r\nHost: proxy.com:3128\r\n\r\n", "200 403", nil, []string{"host_mismatch http://proxy.com:3128/y"}},
		{"a tunnel in a tunnel", connect + connect, "200 400", nil, []string{"host_mismatch http://a.com:80"}},
		{"raw inside", connect + "EHLO x\r\n", "200", nil, []string{"host_not_listed tcp://a.com:80"}},
		{"a tunnel to nowhere granted", "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n", "403", nil, []string{"host_not_listed tcp://evil.com:443"}},
		{"to another port", "CONNECT a.com:22 HTTP/1.1\r\nHost: a.com:22\r\n\r\n", "403", nil, []string{"host_not_listed tcp://a.com:22"}},
		{"to an address", "CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", "403", nil, []string{"host_not_listed tcp://127.0.0.1:80"}},
		{"another Host", "CONNECT a.com:80 HTTP/1.1\r\nHost: b.com:80\r\n\r\n", "400", nil, []string{"host_mismatch http://proxy.com:3128"}},
		{"with a body", "CONNECT a.com:80 HTTP/1.1\r\nHost: a.com:80\r\nContent-Length: 3\r\n\r\nabc", "400", nil, []string{"host_mismatch http://proxy.com:3128"}},
	} {
		x.check(w, w.dial("203.0.113.3:3128"), c)
		w.wantDenialsOf(x.name, x.reported...)
	}
	sendHTTP(t, w.dial("203.0.113.3:3128"), "CONNECT a.com:22 HTTP/1.1\r\nHost: a.com:22\r\n\r\n")
	if !w.hasNote("a.com is granted, but not its port 22") {
		t.Error("the report doesn't name the port as the reason")
	}
	cn := w.dial("203.0.113.3:3128")
	io.WriteString(cn, "CONNECT raw.com:2525 HTTP/1.1\r\nHost: raw.com:2525\r\n\r\nEHLO x\r\n")
	cn.CloseWrite()
	if got, _ := io.ReadAll(cn); !strings.HasSuffix(string(got), "\r\n\r\nEHLO x\r\n") {
		t.Errorf("raw in a tunnel to a raw port: %q", got)
	}
}

// An ordinary server that gets a request to a proxy serves the path itself.
func TestServerAsProxy(t *testing.T) {
	path := func(host, prefix string, allow bool) policy.NetRule {
		return policy.NetRule{Host: host, Scheme: "http", PathPrefix: prefix, Allow: allow}
	}
	w, c := newWorld(t, allow("web.com"), policy.NetRule{Host: "web.com", Port: 8080, Allow: true}, path("web.com", "/admin", false),
		policy.NetRule{Host: "second.com", Scheme: "https", Allow: true}, path("second.com", "/open", true),
		policy.NetRule{Host: "third.com", Scheme: "https", Allow: true}, path("third.com", "/shut", false), policy.NetRule{Host: "fourth.com", Scheme: "https", Allow: true},
		policy.NetRule{Host: "*.wild.com", Scheme: "https", Allow: true}, policy.NetRule{Host: "203.0.113.0/24", Scheme: "https", Allow: true}), &cdn{}
	for _, n := range []string{"web.com", "second.com", "fourth.com"} {
		w.zone.set(n, "203.0.113.1")
	}
	w.zone.set("third.com", "203.0.113.2")
	w.serve("203.0.113.1:80", c)
	w.start("web.com")
	for _, x := range []struct{ url, reported string }{
		{"http://web.com/x", ""},
		{"http://web.com/admin/1", "rule_denies net.3 http://web.com:80/admin/1"},
		{"http://web.com:8080/x", ""},
		{"http://web.com:8080/admin/2", "rule_denies net.3 http://web.com:8080/admin/2"},
		{"https://web.com/admin/3", "rule_denies net.3 https://web.com:443/admin/3"},
		{"https://third.com/admin/4", "rule_denies net.3 https://third.com:443/admin/4"}, // by the default host
		{"https://third.com/shut/5", "rule_denies net.7 https://third.com:443/shut/5"},
		{"https://third.com/6", ""}, // web.com might be a proxy
		{"https://second.com/shut/7", "host_not_listed https://second.com:443/shut/7"},
		{"https://fourth.com/8", "host_not_listed https://fourth.com:443/8"},
		{"https://203.0.113.7/9", ""}, // web.com might be a proxy
		{"https://203.0.113.1/10", "host_not_listed https://203.0.113.1:443/10"},
	} {
		w.clearNames()
		w.resolve("web.com", a4)
		host, _, _ := strings.Cut(strings.SplitN(x.url, "//", 2)[1], "/")
		statuses, _ := sendHTTP(t, w.dial("203.0.113.1:80"), "GET "+x.url+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		want, reported := 200, []string(nil)
		if x.reported != "" {
			want, reported = 403, []string{x.reported}
		}
		if took := c.takeRequests(); !slices.Equal(statuses, []int{want}) || (len(took) > 0) != (want == 200) {
			t.Errorf("%s: %v, the server got %q", x.url, statuses, took)
		}
		w.wantDenials(reported...)
	}
	long := "a.b.c.d.e.f.g.wild.com" // above the limit for a wildcard, so no name server is queried
	statuses, _ := sendHTTP(t, w.dial("203.0.113.1:80"), "GET https://"+long+"/ HTTP/1.1\r\nHost: "+long+"\r\n\r\n")
	if !slices.Equal(statuses, []int{403}) || strings.Contains(strings.ToLower(fmt.Sprint(w.zone.queried())), long) {
		t.Errorf("%s: %v, and upstream is asked %q", long, statuses, w.zone.queried())
	}
	w.wantDenials("host_mismatch https://" + long + ":443/")
}

// A grant of a private address for one port grants no other port, although the name is granted for both.
func TestPrivatePort(t *testing.T) {
	w, c := newWorld(t, allow("a.com"), policy.NetRule{Host: "10.0.0.1", Port: 22, Allow: true}), &cdn{}
	w.serve("10.0.0.1:80", c)
	w.zone.set("a.com", "10.0.0.1")
	w.start()
	if addrs, _ := w.resolve("a.com", a4); len(addrs) != 1 {
		t.Errorf("it isn't answered: %v", addrs)
	}
	w.wantStatus("to the private address", "10.0.0.1:80", getRequest("a.com"), 403)
	w.wantDenials("private_address http://a.com:80/")
}

// A binding expires, and a rebound name is denied.
func TestRebinding(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	c := &cdn{}
	w.serve("203.0.113.1:80", c)
	w.serve("10.0.0.1:80", c)
	w.start("a.com")
	w.zone.set("a.com", "10.0.0.1")
	if addrs, _ := w.resolve("a.com", dnsmessage.TypeA); len(addrs) > 0 {
		t.Errorf("a private address is answered: %v", addrs)
	}
	get := getRequest("a.com")
	w.wantStatus("to the private address", "10.0.0.1:80", get, 403)
	w.wantStatus("to the address that was answered", "203.0.113.1:80", get, 200)
	w.s.names.add("a.com", netip.MustParseAddr("203.0.113.1"), time.Now().Add(-time.Second)) // expired
	w.wantStatus("after the binding has expired", "203.0.113.1:80", get, 403)
	if got := c.takeRequests(); len(got) != 1 {
		t.Errorf("the servers got %q", got)
	}
}
