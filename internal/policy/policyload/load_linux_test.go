package policyload

import (
	"os"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// A policy for a running session is loaded for that session's home, terminal and files, whichever user reloads it.
func TestLoadForRunning(t *testing.T) {
	dir := childtest.TempDir(t)
	t.Setenv("HOME", "/nonexistent")
	file, log := dir+"/policy.toml", dir+"/log.json"
	text := "version = 1\nextends = [\"preset:readonly\"]\n[access]\ndefault = { fs = \"allow\" }\n[[access.fs]]\npath = \"~/mine\"\n"
	childtest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	childtest.Must(t, os.WriteFile(log, nil, 0o600))
	p := Options{Files: []string{file}, Workspace: dir, Own: []string{file, log}, Running: &Running{Home: dir + "/home", Hidden: true}}
	c, err := p.Load("")
	childtest.Must(t, err)
	if c.CheckFS(dir+"/home/mine/x", policy.Read).Allow || !c.CheckFS("/nonexistent/mine/x", policy.Read).Allow {
		t.Error("~ isn't the session's home")
	}
	if got := c.CheckFS(log, policy.Update); got.Reason != policy.Protected {
		t.Errorf("to write its record: %s", got.Reason)
	}
	if len(c.Files) != 2 {
		t.Errorf("its files are %q", c.Files)
	}
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\nextends = [\"preset:readonly\"]\n"), 0o600))
	for _, x := range []struct {
		running Running
		opens   string
		not     string
	}{
		{Running{Terminal: "/dev/full"}, "/dev/full", "/dev/kmsg"},
		{Running{}, "/dev/tty", "/dev/kmsg"},
		{Running{Hidden: true}, "/dev/null", "/dev/tty"},
	} {
		p.Running = &x.running
		c, err := p.Load("")
		childtest.Must(t, err)
		if !c.CheckFS(x.opens, policy.Read).Allow || c.CheckFS(x.not, policy.Read).Allow {
			t.Errorf("%+v: %s and %s", x, c.CheckFS(x.opens, policy.Read).Reason, c.CheckFS(x.not, policy.Read).Reason)
		}
	}
}
