package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

// way is how a client reaches the server.
type way struct {
	name  string
	tls   bool
	rules string // of toolguard; "": it isn't there
	proxy *proxy // nil: none

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// proxy is another project's proxy.
type proxy struct {
	at, program string
	args        []string
	conf        string // in a file "conf" of its folder

	cmd *exec.Cmd
}

var (
	tinyproxy = &proxy{
		at: "127.0.0.1:8001", program: "tinyproxy", args: []string{"-d", "-c", "conf"}, conf: nettest.Tinyproxy("127.0.0.1", "8001"),
	}
	squid = &proxy{
		at: "127.0.0.1:8002", program: "squid", args: []string{"-N", "-f", "conf"}, conf: nettest.Squid("127.0.0.1", "8002"),
	}
	mitmproxy = &proxy{at: "127.0.0.1:8003", program: "mitmdump", args: []string{
		"--quiet", "--listen-host", "127.0.0.1", "--listen-port", "8003", "--ssl-insecure", "--set", "confdir=.", "--set", "stream_large_bodies=64k",
	}}
)

// waysHere are the ways whose programs are installed. The first of each kind is bare.
func waysHere() (ways []*way) {
	for _, w := range []*way{
		{name: "bare"},
		{name: "bare, again"},
		{name: "toolguard, by address: the kernel alone", rules: rule(address, "port = 80")},
		{name: "toolguard, by name: egress", rules: rule(name, `scheme = "http"`)},
		{name: "tinyproxy", proxy: tinyproxy},
		{name: "squid", proxy: squid},
		{name: "bare", tls: true},
		{name: "toolguard, by server name: egress", tls: true, rules: rule(name, `scheme = "https"`)},
		{name: "toolguard, tls_intercept", tls: true, rules: "tls_intercept = true\n" + rule(name, `scheme = "https"`, `path_prefix = "/"`)},
		{name: "tinyproxy", tls: true, proxy: tinyproxy},
		{name: "squid", tls: true, proxy: squid},
		{name: "mitmproxy", tls: true, proxy: mitmproxy},
	} {
		if w.proxy != nil {
			if _, err := exec.LookPath(w.proxy.program); err != nil {
				fmt.Fprintf(os.Stderr, "network: left out: %s: %v\n", w.name, err)
				continue
			}
		}
		ways = append(ways, w)
	}
	return ways
}

func rule(host string, more ...string) string {
	return "[[access.net]]\nallow = true\nhost = \"" + host + "\"\n" + strings.Join(more, "\n") + "\n"
}

// begin starts a client for each way, and the proxies.
func begin(dir, built string) (ways []*way, err error) {
	ways = waysHere()
	running := map[*proxy]bool{}
	for i, w := range ways {
		if w.proxy != nil && !running[w.proxy] {
			running[w.proxy] = true
			err = w.proxy.start(filepath.Join(dir, w.proxy.program))
		}
		if err == nil {
			err = w.start(filepath.Join(dir, strconv.Itoa(i)), authorities(dir), built)
		}
		if err != nil {
			end(ways)
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return ways, nil
}

// own makes a started process end with this one.
var own = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}

func (p *proxy) start(dir string) error {
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "conf"), []byte(p.conf), 0o600)); err != nil {
		return err
	}
	cmd := exec.Command(p.program, p.args...)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = dir, os.Stderr, own
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd = cmd
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp4", p.at)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// start starts the way's client.
func (w *way) start(dir, authorities, built string) error {
	at, port, kind, by := address, "80", "plain", ""
	if w.tls {
		port, kind = "443", "tls"
	}
	if w.proxy != nil {
		by = w.proxy.at
	}
	argv := []string{"/proc/self/exe", "client", name, "", by, kind}
	if w.rules != "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		argv[0] = self
		policy := "version = 1\n[access]\ndefault = { env = \"allow\" }\nfs = [{ path = \"" + filepath.Dir(self) + "\", read = true, execute = true }]\n" + w.rules
		file := filepath.Join(dir, "policy.toml")
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte(policy), 0o644)); err != nil {
			return err
		}
		argv = append([]string{filepath.Join(built, "toolguard"), "exec", "--daemon", "none", "--report", "never", "--policy", file, "--workspace", dir, "--"}, argv...)
		if strings.Contains(w.rules, name) {
			at = name
		}
	}
	argv[len(argv)-3] = net.JoinHostPort(at, port)
	w.cmd = exec.Command(argv[0], argv[1:]...)
	w.cmd.Env, w.cmd.Stderr, w.cmd.SysProcAttr = append(os.Environ(), "SSL_CERT_FILE="+authorities), os.Stderr, own
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.in, w.out = in, bufio.NewScanner(out)
	return w.cmd.Start()
}

// patience is far longer than any operation.
const patience = 2 * time.Minute

// ask makes the client execute an order, and returns the time.
func (w *way) ask(order string) (time.Duration, error) {
	late := time.AfterFunc(patience, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	if _, err := fmt.Fprintln(w.in, order); err != nil {
		return 0, err
	}
	if !w.out.Scan() {
		return 0, errors.Join(fmt.Errorf("its client ended, or took longer than %v", patience), w.out.Err())
	}
	ns, err := strconv.ParseInt(w.out.Text(), 10, 64)
	return time.Duration(ns), err
}

func end(ways []*way) {
	for _, w := range ways {
		if w.in != nil {
			_ = w.in.Close()
			_ = w.cmd.Wait()
		}
		if p := w.proxy; p != nil && p.cmd != nil { // squid has changed its user, and with that outlives this process
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
			p.cmd = nil
		}
	}
}
