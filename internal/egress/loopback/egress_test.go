package loopback

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/egress/process"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

var must = childtest.Must

// The test binary is the program of egress, too.
func TestMain(m *testing.M) {
	if os.Getenv("TOOLGUARD_TEST_EGRESS") == "" {
		os.Exit(m.Run())
	}
	if err := process.ServeProxy(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// egressProgram returns the program of egress.
func egressProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return writeScript(t, "TOOLGUARD_TEST_EGRESS=1 exec '"+self+"'")
}

func writeScript(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "egress")
	must(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return file
}

// reports notes what egress reports.
type reports struct {
	mu   sync.Mutex
	list []string
}

func (r *reports) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

func (r *reports) DeniedByName(d *message.Denial) {
	rule := ""
	if d.Answer.Rule != nil {
		rule = d.Answer.Rule.ID + " "
	}
	r.add(fmt.Sprintf("%s %s%s", d.Answer.Reason, rule, d.Answer.Target))
}
func (r *reports) Lost(_ string, n uint64, why string) { r.add(fmt.Sprintf("lost %d: %s", n, why)) }

// want waits for exactly these reports.
func (r *reports) want(t *testing.T, want ...string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		got := slices.Clone(r.list)
		r.mu.Unlock()
		if slices.Equal(got, want) {
			r.mu.Lock()
			r.list = nil
			r.mu.Unlock()
			return
		}
		if time.Now().After(end) || len(got) > len(want) {
			t.Fatalf("reported %q, want %q", got, want)
		}
	}
}

// server is an HTTP server of this machine.
func server(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served "+r.URL.Path) })}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func compile(t *testing.T, rules ...policy.NetRule) *policy.Compiled {
	t.Helper()
	for i := range rules {
		rules[i].Position = policy.Position{File: "p.toml", Line: i + 1, Col: 1}
	}
	return nettest.Policy(t, policy.SourceLayer{Authority: policy.Session, Net: rules})
}

// TestEgress: clients reach a granted server by the variables of a session, and no other one, and each denial is reported.
func TestEgress(t *testing.T) {
	port := server(t)
	c := compile(t, policy.NetRule{Host: "localhost", Scheme: "http", Port: port, Allow: true}, policy.NetRule{Host: "evil.test"})
	r := &reports{}
	o := message.Instructions{Generation: 1, Policy: c, Upstream: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}
	e, err := Start(egressProgram(t), o, os.Environ(), r)
	must(t, err)
	defer e.End()
	proxy, err := url.Parse(fmt.Sprintf("http://127.0.0.1:%d", e.Port()))
	must(t, err)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	get := func(u string) (int, string) {
		resp, err := client.Get(u)
		must(t, err)
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, body := get(fmt.Sprintf("http://localhost:%d/x", port)); status != 200 || body != "served /x" {
		t.Errorf("a granted host: %d %q", status, body)
	}
	if status, body := get("http://evil.test/y"); status != 403 || !strings.Contains(body, "net.2") || !strings.Contains(body, "p.toml:2:1") {
		t.Errorf("a denied host: %d %q", status, body)
	}
	if status, _ := get(fmt.Sprintf("http://127.0.0.2:%d/x", port)); status != 403 {
		t.Errorf("another address: %d", status)
	}
	r.want(t, "rule_denies net.2 http://evil.test:80/y", fmt.Sprintf("host_not_listed http://127.0.0.2:%d/x", port))
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("needs curl for the rest")
	}
	for target, want := range map[string]string{fmt.Sprintf("http://localhost:%d/z", port): "served /z 200", "http://evil.test/z": " 403"} {
		cmd := exec.Command(curl, "-s", "-w", " %{http_code}", target)
		cmd.Env = e.Environ([]string{"PATH=" + os.Getenv("PATH"), "no_proxy=localhost"})
		if out, err := cmd.Output(); err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("curl %s: %q, %v", target, out, err)
		}
	}
	r.want(t, "rule_denies net.2 http://evil.test:80/z")
}

// An egress that has died denies everything, and that is reported once. One that was ended is not.
func TestEgressDies(t *testing.T) {
	c, r := compile(t, policy.NetRule{Host: "localhost", Allow: true}), &reports{}
	program := egressProgram(t)
	e, err := Start(program, message.Instructions{Generation: 1, Policy: c}, nil, r)
	must(t, err)
	at := fmt.Sprintf("127.0.0.1:%d", e.Port())
	must(t, syscall.Kill(e.PID(), syscall.SIGKILL))
	r.want(t, "lost 0: egress ended: its connections are denied from then on")
	if conn, err := net.Dial("tcp4", at); err == nil {
		conn.Close()
		t.Error("a connection is accepted")
	}
	e.End()
	e, err = Start(program, message.Instructions{Generation: 1, Policy: c}, nil, r)
	must(t, err)
	e.End()
	r.want(t)
}

func TestStartFails(t *testing.T) {
	c := compile(t, policy.NetRule{Host: "localhost", Allow: true})
	for text, want := range map[string]string{
		"exit 1": "ended at once", "echo x; exec sleep 60": "ended at once", `echo '{"Error":"no memory"}'`: "no memory",
	} {
		if _, err := Start(writeScript(t, text), message.Instructions{Policy: c}, nil, &reports{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Start(filepath.Join(t.TempDir(), "none"), message.Instructions{Policy: c}, nil, &reports{}); err == nil {
		t.Error("no program, and no error")
	}
}

func TestEnviron(t *testing.T) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer l.Close()
	e := &Egress{listener: l}
	at := fmt.Sprintf("http://127.0.0.1:%d", e.Port())
	got := e.Environ([]string{"A=1", "No_Proxy=*", "HTTPS_PROXY=http://other:1", "my_proxy=x"})
	want := []string{"A=1", "HTTP_PROXY=" + at, "http_proxy=" + at, "HTTPS_PROXY=" + at, "https_proxy=" + at, "ALL_PROXY=" + at, "all_proxy=" + at}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
