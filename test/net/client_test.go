//go:build linux

package net

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Egress's denials are reported with their process, as are the kernel's: a session can have thousands of programs.
func TestEventProcess(t *testing.T) {
	needs(t, "python3", "curl")
	const program = `import os, ssl, subprocess, sys, time, urllib.request
def get(url, method="GET", **headers):
    try: urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=20)
    except OSError as e: print(url, e)
get("http://denied.test/")
get("http://allowed.test/", Host="denied.test")
get("http://allowed.test/b/c")
get("http://allowed.test/a/c", method="POST")
try: ssl.create_default_context().wrap_socket(__import__("socket").create_connection(("allowed.test", 443), 20), server_hostname="denied.test")
except OSError as e: print("TLS", e)
` + "subprocess.run([\"curl\", \"-sS\", \"http://gone.test/\"])\n" + `open("asked", "w")
while not os.path.exists("reported"): time.sleep(0.01)
`
	p := newFixture(t, "", allow("allowed.test", `scheme = "http"`, `path_prefix = "/a"`, `methods = ["GET"]`)+allow("allowed.test", `scheme = "https"`))
	must(t, os.WriteFile(filepath.Join(p.workspace, "ask.py"), []byte(program), 0o644))
	cmd := p.confined("python3 ask.py --token=secret; true")
	output, err := os.Create(filepath.Join(p.workspace, "output"))
	must(t, err)
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	must(t, cmd.Start())
	want := []string{
		"resolve dns://denied.test dns_denied", "connect http://denied.test:80/ host_not_listed", "connect http://allowed.test:80/b/c host_not_listed",
		"connect http://allowed.test:80/a/c host_not_listed", "connect https://denied.test:443 host_not_listed", "resolve dns://gone.test dns_denied",
	}
	until(t, "all is reported", func() bool {
		if !exists(filepath.Join(p.workspace, "asked")) {
			return false
		}
		all := p.denials()
		return !slices.ContainsFunc(want, func(w string) bool { return !has(all, w) })
	})
	must(t, os.WriteFile(filepath.Join(p.workspace, "reported"), nil, 0o644))
	must(t, cmd.Wait())
	for _, e := range p.denials() {
		if e.Unmapped.Target == "dns://gone.test" { // the process may have exited: then the event has only the kernel's data
			if a := e.Actor.Process; a.PID == 0 || a.Name != "curl" {
				t.Errorf("%s: by %+v", e, a)
			}
			continue
		}
		a := e.Actor.Process
		if a.PID == 0 || a.Name != "python3" || !strings.HasPrefix(a.File.Path, "/usr/bin/python3") || a.Line != "python3 ask.py --token=***" || a.Began == 0 {
			t.Errorf("%s: by %+v", e, a)
		}
		if p := a.Parent; p == nil || p.Name != "sh" || p.PID == 0 || p.Began == 0 || p.Parent != nil {
			t.Errorf("%s: by a child of %+v", e, p)
		}
	}
}
