package daemon

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

const someone = 65534

// withHost is a toolguardd with a host policy that allows reading.
func withHost(t *testing.T) *Daemon {
	t.Helper()
	d, _ := served(t, DefaultLimits)
	dir, err := os.MkdirTemp("/run", "test-policies-") // beneath folders that only root may write
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d.cfg.Policies, d.mounts = dir, 7
	text := "version = 1\n[access]\ndefault = { fs = \"deny\" }\n[[access.fs]]\npath = \"/\"\nread = true\n"
	must(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/h.toml", []byte(text), 0o644)))
	return d
}

// restricted is a policy that allows all files, restricted by the host's policies.
func restricted(t *testing.T, d *Daemon, tmp string, o origin) (*policy.Compiled, error) {
	t.Helper()
	layer := policy.SourceLayer{Authority: policy.Session}
	layer.Defaults[policy.FS] = policy.Allow
	c, err := policy.Compile(&policy.Source{
		Name: "test", Workspace: "/", Home: "/", Path: "/usr/bin", Layers: []policy.SourceLayer{layer},
	}, hostfs.Machine{})
	must(t, err)
	c.TmpDir = tmp
	o.uid, o.pid = someone, os.Getpid()
	return d.restrictToHost(o, &api.Start{}, c)
}

// rejectionOf is the status of a rejection, or 0.
func rejectionOf(err error) int {
	if f, ok := errors.AsType[*statusError](err); ok {
		return f.status
	}
	return 0
}

// The host's policies allow writing the TMPDIR, so toolguard must have made it.
func TestHostTmpDir(t *testing.T) {
	d := withHost(t)
	base := t.TempDir()
	folder := func(name string, uid int, mode os.FileMode) string {
		dir := base + "/" + name
		must(t, errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, mode), os.Chown(dir, uid, uid)))
		return dir
	}
	own := folder("toolguard-own", someone, 0o700)
	for _, link := range [][2]string{{own, base + "/toolguard-link"}, {base, base + "/by"}} {
		must(t, os.Symlink(link[0], link[1]))
	}
	for _, x := range []struct{ tmp, why string }{
		{"", ""},
		{own, ""},
		{"/", "name"},
		{"/var", "name"},
		{folder("other", someone, 0o700), "name"},
		{folder("toolguard-open", someone, 0o755), "mode 0755"},
		{folder("toolguard-roots", 0, 0o700), "belongs to user 0"},
		{base + "/toolguard-none", "no such"},
		{base + "/toolguard-link", "it leads to"},
		{base + "/by/toolguard-own", "it leads to"},
	} {
		if c, err := restricted(t, d, x.tmp, origin{mounts: d.mounts, runs: true}); err != nil {
			t.Errorf("%q prevents a reload: %v", x.tmp, err)
		} else if x.why != "" && c.CheckFS(x.tmp+"/x", policy.Update).Allow {
			t.Errorf("%q may be written after a reload", x.tmp)
		}
		c, err := restricted(t, d, x.tmp, origin{mounts: d.mounts})
		if x.why != "" {
			if rejectionOf(err) != 403 || !strings.Contains(err.Error(), x.why) {
				t.Errorf("%q: %v, and it must be rejected for its %q", x.tmp, err, x.why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", x.tmp, err)
			continue
		}
		for path, want := range map[string]bool{"/var/lib/x": false, "/x": false, base + "/x": false, own + "/x": x.tmp == own} {
			if got := c.CheckFS(path, policy.Update).Allow; got != want {
				t.Errorf("%q: %s may be written: %v", x.tmp, path, got)
			}
		}
	}
}

// In another mount namespace no session begins if the host has policies, because their paths may name other files.
func TestHostMounts(t *testing.T) {
	d := withHost(t)
	_, err := restricted(t, d, "", origin{mounts: 1})
	if rejectionOf(err) != 403 || !strings.Contains(err.Error(), "another mount namespace") {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(d.cfg.Policies+"/h.toml"))
	if _, err := restricted(t, d, "/", origin{mounts: 1}); err != nil {
		t.Error(err)
	}
}

// A nested session must be in the mount namespace of the outer one.
func TestWithinMounts(t *testing.T) {
	p := policiesOf(compiled(t, "/etc"))
	defer runtime.KeepAlive(p) // it's in no file
	outer := &session{id: "1", mounts: 7, recent: weak.Make(p)}
	d := &Daemon{sessions: map[uint64]*session{1: outer}}
	for mounts, status := range map[uint32]int{7: 0, 8: 403} {
		_, err := d.restrict(origin{from: 1, mounts: mounts}, &api.Start{}, compiled(t, "/etc"))
		if rejectionOf(err) != status {
			t.Errorf("mount namespace %d: %v, and not %d", mounts, err, status)
		}
	}
}
