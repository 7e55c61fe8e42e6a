//go:build linux

package vm

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A connection to nscd, which the C library tries first, is denied without an event; one to another service with one (Landlock ABI 10).
func TestQuietService(t *testing.T) {
	g := inGuest(t)
	if abis[g.series] < 10 {
		t.Skip("needs Landlock ABI 10")
	}
	var tries []string
	for _, path := range []string{"/run/nscd/socket", "/run/other/socket"} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		l, err := net.Listen("unix", path)
		must(t, err)
		defer l.Close()
		defer os.Remove(filepath.Dir(path))
		tries = append(tries, `python3 -Bc 'import socket; socket.socket(socket.AF_UNIX).connect("`+path+`")'`)
	}
	s := g.session(t, "", strings.Join(tries, "; "))
	s.Args = append([]string{s.Args[0], "exec", "--backend", "landlock"}, s.Args[2:]...)
	s.finish()
	events, err := os.ReadFile(s.events)
	must(t, err)
	if n := strings.Count(s.stderr.String(), "PermissionError"); n != 2 {
		t.Errorf("%d of 2 connections were denied: %s", n, s.stderr.String())
	}
	for path, want := range map[string]bool{"/run/nscd/socket": false, "/run/other/socket": true} {
		if got := strings.Contains(string(events), `"target":"`+path+`"`); got != want {
			t.Errorf("%s is in an event: %v", path, got)
		}
	}
}
