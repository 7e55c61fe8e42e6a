//go:build linux

package net

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
)

// bulk is the size of a transfer: many times that of any buffer. In five minutes, a busy emulated processor encrypts less than 64 MiB.
var bulk = func() int64 {
	if os.Getenv("TOOLGUARD_VM") != "" {
		return 1 << 25
	}
	return 1 << 26
}()

// stream returns bulk bytes, always the same.
func stream() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), bulk) }

func count(r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%d %x\n", n, h.Sum(nil)), err
}

// whole is the result of count for the whole stream.
var whole = sync.OnceValues(func() (string, error) { return count(stream()) })

// serveBulk sends the stream and counts what it receives: by HTTP on port 8090 of an address, under TLS on 8443, and raw on 8092, where
// it sends, and 8093, where it receives.
func (n *internet) serveBulk(ip string) error {
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", strconv.FormatInt(bulk, 10))
			_, _ = io.Copy(w, stream())
			return
		}
		data, err := count(r.Body)
		fmt.Fprint(w, data, err)
	})
	cert, err := n.ca.Certify("web.test")
	if err != nil {
		return err
	}
	tlsWeb := &http.Server{Handler: web, TLSConfig: &tls.Config{Certificates: []tls.Certificate{*cert}}}
	down := func(c net.Conn) { _, _ = io.Copy(c, stream()) }
	up := func(c net.Conn) {
		data, err := count(c)
		fmt.Fprint(c, data, err)
	}
	return n.run(func() error {
		plain, err := net.Listen("tcp", ip+":8090")
		under, err2 := net.Listen("tcp", ip+":8443")
		from, err3 := net.Listen("tcp", ip+":8092")
		to, err4 := net.Listen("tcp", ip+":8093")
		if err := errors.Join(err, err2, err3, err4); err != nil {
			return err
		}
		go http.Serve(plain, web)
		go tlsWeb.ServeTLS(under, "", "") // a separate server: one that serves without TLS first may not serve HTTP/2 under TLS
		go nettest.Accept(from, down)
		go nettest.Accept(to, up)
		return nil
	})
}

// back sends a server's data back to it.
const back = python + `'import shutil, socket
down, up = (socket.create_connection(("web.test", p), 60) for p in (8092, 8093))
shutil.copyfileobj(down.makefile("rb"), f := up.makefile("wb"), 1 << 20); f.flush(); up.shutdown(socket.SHUT_WR)
print(up.makefile().read(), end="")'`

// Data arrives complete and unchanged in both directions: through egress, with and without interception, and directly.
func TestBulk(t *testing.T) {
	needsServers(t, "curl", "python3")
	t.Parallel() // slow
	must(t, realInternet.serveBulk(webIP))
	https := func(version string) string {
		return "curl -sS " + version + " https://web.test:8443/ | curl -sS " + version + " -T - https://web.test:8443/"
	}
	under := allow("web.test", `scheme = "https"`, "port = 8443")
	read := allow("web.test", `scheme = "https"`, "port = 8443", `path_prefix = "/"`)
	for _, x := range []struct{ name, access, rules, line string }{
		{"HTTP", "", allow("web.test", `scheme = "http"`, "port = 8090"), "curl -sS http://web.test:8090/ | curl -sS -T - http://web.test:8090/"},
		{"TCP by name", "", allow("web.test", "port = 8092") + allow("web.test", "port = 8093"), back},
		{"TLS, passed through", "", under, https("--http1.1")},
		{"TLS, read, HTTP/1.1", "tls_intercept = true", read, https("--http1.1")},
		{"TLS, read, HTTP/2", "tls_intercept = true", read, https("--http2")},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			start := time.Now()
			p := newFixture(t, x.access, x.rules)
			got := outcomeOf(t, p.confined(x.line))
			t.Logf("%s", time.Since(start).Round(time.Millisecond))
			if want, err := whole(); err != nil || got.output != want+"<nil>" {
				t.Errorf("%q, not %q (%v)", got.output, want, err)
			}
			if all := p.denials(); len(all) > 0 {
				t.Errorf("events %q", all)
			}
		})
	}
}

// manyIdle returns ten thousand, or half the limit of open files, or far less where the processor is emulated.
func manyIdle(t *testing.T) int {
	var files syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if os.Getenv("TOOLGUARD_VM") != "" {
		return 200
	}
	return int(min(10000, (files.Max-1000)/2))
}

// openScript opens connections that send data and stay open, and makes a request on another one.
const openScript = `import resource,socket,sys,time
n, data = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode()
resource.setrlimit(resource.RLIMIT_NOFILE, (n + 100,) * 2)
def get():
    s = socket.create_connection(("web.test", 80), 60); s.sendall(b"GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n"); return s.recv(12)[9:].decode()
get(); at = socket.getaddrinfo("web.test", 80, socket.AF_INET)[0][4]; open_conns = []
for i in range(n):
    s = socket.socket(); s.settimeout(60); s.connect(at); s.sendall(data); open_conns.append(s)
    if data.endswith(b"\r\n\r\n"): assert s.recv(4096)[9:12] == b"200"
began = time.time(); print(get(), "after %.3f s" % (time.time() - began)); open("open_conns", "w").close()
if not data.endswith(b"\r\n\r\n"):
    for s in open_conns: s.settimeout(30); assert b" 403 " in s.recv(4096) or True; s.close()
    print("all have ended")
else: time.sleep(1)
`

// Ten thousand idle connections cost egress less than 200 MiB, in proportion, and delay no other client.
func TestIdle(t *testing.T) {
	needsServers(t, "python3")
	n := manyIdle(t)
	r := openMany(t, n, `GET / HTTP/1.1\r\nHost: web.test\r\n\r\n`)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.egress))
	must(t, err)
	rss, err := strconv.Atoi(regexp.MustCompile(`VmRSS:\s*(\d+)`).FindStringSubmatch(string(status))[1])
	if t.Logf("%d KiB with %d connections", rss, n); err != nil || rss > 40<<10+16*n {
		t.Errorf("egress uses %d KiB: %v", rss, err)
	}
	if data := r.output(); !strings.HasPrefix(data, "200") {
		t.Errorf("%q", data)
	}
}

// Clients that never finish their requests delay no other client, and are disconnected.
func TestSlowClients(t *testing.T) {
	needsServers(t, "python3")
	t.Parallel() // slow
	r := openMany(t, min(500, manyIdle(t)), `GET / HTTP/1.1\r\nHost: web`)
	if data := r.output(); !regexp.MustCompile(`^200 after \d\.\d+ s\nall have ended\n`).MatchString(data) {
		t.Errorf("%q", data)
	}
	until(t, "it's reported", func() bool {
		for _, e := range r.denials() {
			if e.Unmapped.Reason == "limit" || e.Unmapped.Reason == "host_mismatch" {
				return true
			}
		}
		return false
	})
}

// openConns is a session with open connections.
type openConns struct {
	*running
	out *sync.WaitGroup
	got bytes.Buffer
}

func openMany(t *testing.T, n int, data string) *openConns {
	t.Helper()
	p := newFixture(t, "", allow("web.test"))
	h := &openConns{running: startRunning(t, p), out: &sync.WaitGroup{}}
	must(t, os.WriteFile(p.workspace+"/open_conns.py", []byte(openScript), 0o600))
	h.out.Go(func() {
		h.got.WriteString(h.doFor(10*time.Minute, fmt.Sprintf("/usr/bin/python3 open_conns.py %d '%s'", n, data)))
	})
	untilFor(t, 10*time.Minute, "all connections are open", func() bool { return exists(p.workspace+"/open_conns") || exists(p.workspace+"/out.2") })
	return h
}

func (h *openConns) output() string {
	h.out.Wait()
	return h.got.String()
}

// However often egress dies, everything that it would decide is denied meanwhile.
func TestNoLeaks(t *testing.T) {
	needsServers(t, "python3")
	r := startRunning(t, newFixture(t, "", allow("web.test")))
	try := `import os,socket
socket.setdefaulttimeout(0.3); leaks, tries = [], 0
def ask(ip, port, data):
    s = socket.create_connection((ip, port)); s.sendall(data); return s.recv(400)
def name(n):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l for l in n.split(b".")) + b"\0\0\1\0\1", ("` + nameIP + `", 53)); a = s.recv(400); return b"real" if a[7] else b""
while tries <= 20 or not os.path.exists("enough"):
    for leak in (lambda: ask("` + otherIP + `", 80, b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"), lambda: ask("` + webIP + `", 80, b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"),
                 lambda: b"real" + ask("` + otherIP + `", 7001, b""), lambda: name(b"other.test")):
        tries += 1
        try: got = leak()
        except OSError: continue
        if b"real" in got: leaks.append(got)
print(leaks)`
	must(t, os.WriteFile(r.workspace+"/try.py", []byte(try), 0o600))
	var data string
	var over sync.WaitGroup
	over.Go(func() { data = r.do("/usr/bin/python3 try.py") })
	for range 4 {
		time.Sleep(300 * time.Millisecond)
		must(t, syscall.Kill(r.egress, syscall.SIGKILL))
		r.egress = egressOf(t, r.cmd.Process.Pid, r.egress)
	}
	time.Sleep(time.Second)
	must(t, os.WriteFile(r.workspace+"/enough", nil, 0o600))
	if over.Wait(); !strings.HasPrefix(data, "[]\n") {
		t.Errorf("%q", data)
	}
	r.expect("curl -sS -m 10 http://web.test/", "^real")
}
