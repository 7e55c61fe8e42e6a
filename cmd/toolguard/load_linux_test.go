package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
)

// A policy for a running session is loaded for that session's home, terminal and files, whichever user reloads it.
func TestLoadForRunning(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Setenv("HOME", "/nonexistent")
	file, log := dir+"/policy.toml", dir+"/log.json"
	text := "version = 1\nextends = [\"preset:readonly\"]\n[access]\ndefault = { fs = \"allow\" }\n[[access.fs]]\npath = \"~/mine\"\n"
	must(t, os.WriteFile(file, []byte(text), 0o600))
	must(t, os.WriteFile(log, nil, 0o600))
	p := policyFlags{files: []string{file}, workspace: dir, own: []string{file, log}, running: &api.Session{Home: dir + "/home", Hidden: true}}
	c, err := p.load("")
	must(t, err)
	if c.CheckFS(dir+"/home/mine/x", policy.Read).Allow || !c.CheckFS("/nonexistent/mine/x", policy.Read).Allow {
		t.Error("~ isn't the session's home")
	}
	if got := c.CheckFS(log, policy.Update); got.Reason != policy.Protected {
		t.Errorf("to write its record: %s", got.Reason)
	}
	if len(c.Files) != 2 {
		t.Errorf("its files are %q", c.Files)
	}
	must(t, os.WriteFile(file, []byte("version = 1\nextends = [\"preset:readonly\"]\n"), 0o600))
	for _, x := range []struct {
		running api.Session
		opens   string
		not     string
	}{
		{api.Session{Terminal: "/dev/full"}, "/dev/full", "/dev/kmsg"},
		{api.Session{}, "/dev/tty", "/dev/kmsg"},
		{api.Session{Hidden: true}, "/dev/null", "/dev/tty"},
	} {
		p.running = &x.running
		c, err := p.load("")
		must(t, err)
		if !c.CheckFS(x.opens, policy.Read).Allow || c.CheckFS(x.not, policy.Read).Allow {
			t.Errorf("%+v: %s and %s", x, c.CheckFS(x.opens, policy.Read).Reason, c.CheckFS(x.not, policy.Read).Reason)
		}
	}
}
