package egress

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// useProxy makes the server an HTTP proxy. Nothing shows which process a connection to it is of.
func (w *world) useProxy() { w.s.Proxy, w.s.Kernel, w.process = true, NoKernel{}, event.Observed{} }

// newProxy is a world whose clients use the server as an HTTP proxy.
func newProxy(t *testing.T, rules ...policy.NetRule) (*world, *cdn) {
	w, c := newWorld(t, rules...), &cdn{}
	w.useProxy()
	for _, n := range []string{"a.com", "evil.com", "unlisted.com"} {
		w.zone.set(n, "203.0.113.1")
	}
	w.zone.set("b.com", "203.0.113.2")
	w.zone.set("local.com", "127.0.0.1")
	w.serve("203.0.113.1:80", c)
	w.serve("203.0.113.2:80", c)
	return w.start(), c
}

func TestProxy(t *testing.T) {
	w, c := newProxy(t, allow("a.com"), policy.NetRule{Host: "a.com", Scheme: "http", PathPrefix: "/admin"}, allow("b.com"), denied("evil.com"), allow("local.com"),
		policy.NetRule{Host: "raw.com", Port: 2525, Allow: true}, policy.NetRule{Host: "203.0.113.9", Allow: true},
		allow("split.com"), policy.NetRule{Host: "203.0.113.7", Scheme: "https"})
	w.zone.set("raw.com", "203.0.113.4")
	w.zone.set("split.com", "203.0.113.7")
	for _, x := range []exchange{
		{"a granted host", "GET http://a.com/x?y HTTP/1.1\r\nHost: a.com\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n\r\n", "200", []string{"GET /x?y a.com"}, nil},
		{"a denied path", "GET http://a.com/admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "403", nil, []string{"rule_denies net.2 http://a.com:80/admin"}},
		{"two hosts on one connection", "GET http://a.com/1 HTTP/1.1\r\nHost: a.com\r\n\r\nGET http://b.com/2 HTTP/1.1\r\nHost: b.com\r\n\r\n", "200 200", []string{"GET /1 a.com", "GET /2 b.com"}, nil},
		{"the second one is denied", "GET http://a.com/1 HTTP/1.1\r\nHost: a.com\r\n\r\nGET http://evil.com/2 HTTP/1.1\r\nHost: evil.com\r\n\r\n", "200 403", []string{"GET /1 a.com"}, []string{"rule_denies net.4 http://evil.com:80/2"}},
		{"a denied host", "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", "403", nil, []string{"rule_denies net.4 http://evil.com:80/"}},
		{"a host without a rule", "GET http://unlisted.com/ HTTP/1.1\r\nHost: unlisted.com\r\n\r\n", "403", nil, []string{"host_not_listed http://unlisted.com:80/"}},
		{"another Host", "GET http://a.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", "400", nil, []string{"host_mismatch http://localhost"}},
		{"another port", "GET http://a.com:8080/ HTTP/1.1\r\nHost: a.com:8080\r\n\r\n", "403", nil, []string{"host_not_listed http://a.com:8080/"}},
		{"no proxy request", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n", "400", nil, []string{"host_mismatch http://localhost"}},
		{"no proxy request after one", "GET http://a.com/1 HTTP/1.1\r\nHost: a.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.com\r\n\r\n", "200 400", []string{"GET /1 a.com"}, []string{"host_mismatch http://a.com:80"}},
		{"TLS without a tunnel", "GET https://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "400", nil, []string{"host_mismatch http://localhost"}},
		{"a name that leads to this machine", "GET http://local.com/ HTTP/1.1\r\nHost: local.com\r\n\r\n", "502", nil, []string{"private_address tcp://127.0.0.1:443"}},
		{"a tunnel", connect + "GET /y HTTP/1.1\r\nHost: a.com\r\n\r\n", "200 200", []string{"GET /y a.com"}, nil},
		{"another name inside", connect + "GET /y HTTP/1.1\r\nHost: evil.com\r\n\r\n", "200 403", nil, []string{"rule_denies net.4 http://evil.com:80/y"}},
		{"another granted name inside", connect + "GET /y HTTP/1.1\r\nHost: b.com\r\n\r\n", "200 403", nil, []string{"host_mismatch http://b.com:80/y"}},
		{"a denied path inside", connect + "GET /admin HTTP/1.1\r\nHost: a.com\r\n\r\n", "200 403", nil, []string{"rule_denies net.2 http://a.com:80/admin"}},
		{"a tunnel in a tunnel", connect + connect, "200 400", nil, []string{"host_mismatch http://a.com:80"}},
		{"raw inside", connect + "EHLO x\r\n", "200", nil, []string{"rule_denies net.2 tcp://a.com:80"}},
		{"a tunnel to a denied host", "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n", "403", nil, []string{"host_not_listed tcp://evil.com:443"}},
		{"a tunnel to an address", "CONNECT 203.0.113.1:80 HTTP/1.1\r\nHost: 203.0.113.1:80\r\n\r\n", "403", nil, []string{"host_not_listed tcp://203.0.113.1:80"}},
		{"a tunnel to another port", "CONNECT a.com:2222 HTTP/1.1\r\nHost: a.com:2222\r\n\r\n", "403", nil, []string{"host_not_listed tcp://a.com:2222"}},
		{"an address that is denied for TLS", "CONNECT split.com:443 HTTP/1.1\r\nHost: split.com:443\r\n\r\n", "502", nil, []string{"rule_denies net.9 tcp://203.0.113.7:443"}},
		{"a server that can't be reached", "GET http://203.0.113.9/ HTTP/1.1\r\nHost: 203.0.113.9\r\n\r\n", "502", nil, nil},
	} {
		x.check(w, w.connect(), c)
		w.wantDenialsOf(x.name, x.reported...)
	}
}

// connect is the request for a tunnel to a.com.
const connect = "CONNECT a.com:80 HTTP/1.1\r\nHost: a.com:80\r\n\r\n"

// exchange is the text that a client sends, and what follows.
type exchange struct {
	name, text     string
	status         string   // of each response
	took, reported []string // by the server c, and by egress
}

// check sends the text on a connection and checks what c gets. Text after the request for a tunnel is sent when the tunnel is open.
func (x *exchange) check(w *world, conn net.Conn, c *cdn) {
	w.t.Helper()
	text, opened := strings.CutPrefix(x.text, connect)
	if opened {
		io.WriteString(conn, connect)
		if head := readTunnelHead(w.t, conn); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
			w.t.Fatalf("%s: %q", x.name, head)
		}
	}
	statuses, bodies := sendHTTP(w.t, conn, text)
	if opened {
		statuses = append([]int{200}, statuses...)
	}
	if got := strings.Trim(fmt.Sprint(statuses), "[]"); got != x.status {
		w.t.Errorf("%s: %s %q, want %s", x.name, got, bodies, x.status)
	}
	if got := c.takeRequests(); !slices.Equal(got, x.took) {
		w.t.Errorf("%s: the server got %q, want %q", x.name, got, x.took)
	}
}

// readTunnelHead reads the answer to CONNECT, and not more.
func readTunnelHead(t testing.TB, c net.Conn) (head string) {
	t.Helper()
	one := make([]byte, 1)
	for !strings.HasSuffix(head, "\r\n\r\n") {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		head += string(one)
	}
	return head
}

// A port that is granted as raw is reached through a tunnel, also where the server sends first.
func TestProxyRaw(t *testing.T) {
	w, _ := newProxy(t, policy.NetRule{Host: "raw.com", Port: 2525, Allow: true})
	w.zone.set("raw.com", "203.0.113.4")
	go nettest.Accept(w.listen("203.0.113.4:2525"), func(c net.Conn) {
		io.WriteString(c, "220 hello\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, "got "+line)
	})
	cn := w.connect()
	io.WriteString(cn, "CONNECT raw.com:2525 HTTP/1.1\r\nHost: raw.com:2525\r\n\r\n")
	readTunnelHead(t, cn)
	in := bufio.NewReader(cn)
	if line, err := in.ReadString('\n'); line != "220 hello\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	io.WriteString(cn, "EHLO x\r\n")
	if line, err := in.ReadString('\n'); line != "got EHLO x\r\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// A client of net/http reaches a granted host by TLS, decided by the server name and, where TLS is intercepted, by each request.
func TestProxyTLS(t *testing.T) {
	for _, intercepts := range []bool{false, true} {
		pool, server := roots(t, "a.com")
		layer := policy.SourceLayer{TLSIntercept: intercepts, Net: []policy.NetRule{allow("a.com")}}
		if intercepts {
			layer.Net = append(layer.Net, policy.NetRule{Host: "a.com", PathPrefix: "/admin"})
		}
		w := newWorldOf(t, layer)
		w.useProxy()
		client := &tls.Config{RootCAs: pool}
		if intercepts {
			client = w.intercept(pool)
		}
		c := &cdn{}
		srv := &http.Server{Handler: c}
		go srv.Serve(tls.NewListener(w.listen("203.0.113.1:443"), server))
		t.Cleanup(func() { srv.Close() })
		w.start()
		proxy := &url.URL{Scheme: "http", Host: w.tcp.String()}
		hc := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: client}}
		resp, err := hc.Get("https://a.com/x")
		if err != nil {
			t.Fatalf("intercepts %v: %v", intercepts, err)
		}
		resp.Body.Close()
		if got := c.takeRequests(); resp.StatusCode != 200 || !slices.Equal(got, []string{"GET /x a.com"}) {
			t.Errorf("intercepts %v: %d, %q", intercepts, resp.StatusCode, got)
		}
		if _, err := hc.Get("https://other.com/"); err == nil {
			t.Errorf("intercepts %v: a host without a rule is reached", intercepts)
		}
		w.wantDenialsOf(fmt.Sprint("intercepts ", intercepts), "host_not_listed tcp://other.com:443")
		hc.CloseIdleConnections()
		if !intercepts {
			continue
		}
		resp, err = hc.Get("https://a.com/admin")
		must(t, err)
		resp.Body.Close()
		if got := c.takeRequests(); resp.StatusCode != 403 || len(got) != 0 {
			t.Errorf("%d, %q", resp.StatusCode, got)
		}
		hc.CloseIdleConnections()
	}
}
