//go:build linux

package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

const hostFile = "/etc/toolguard/policy.d/test.toml"

// hostDenies makes a host policy that denies a file.
func hostDenies(t *testing.T, file string) {
	t.Helper()
	must(t, errors.Join(
		os.MkdirAll("/etc/toolguard/policy.d", 0o755),
		os.WriteFile(hostFile, []byte("version = 1\n[access]\ndefault = { fs = \"allow\" }\n[[access.fs]]\npath = \""+file+"\"\n"), 0o644),
	))
	t.Cleanup(func() { _ = os.RemoveAll("/etc/toolguard") })
}

// The host's policies apply to a session from its start, and after each reload, even if the toolguard that reloads is in a mount namespace
// without them.
func TestHostPolicies(t *testing.T) {
	share(t)
	for _, x := range []struct {
		name   string
		denies bool
		want   string
	}{
		{"there are none", false, "yes"},
		{"there are some", true, "no"},
	} {
		t.Run(x.name, func(t *testing.T) {
			j := newJob(t, nobodyUID, more, `read x <OUTSIDE && echo yes >can || echo no >can; until [ -e reloaded ]; do sleep 0.1; done
read x <OUTSIDE && echo yes >then || echo no >then`)
			if x.denies {
				hostDenies(t, j.outside)
			}
			j.start()
			j.wrote("can", x.want)
			id := sessions(t, nobodyUID)[0].ID
			unseen := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /etc/toolguard 2>/dev/null; exec "+built+
				"/toolguard sessions reload "+id+" --policy "+j.write("../next.toml", more))
			if out, err := unseen.CombinedOutput(); err != nil {
				t.Fatalf("reload: %v\n%s", err, out)
			}
			must(t, os.WriteFile(j.workspace+"/reloaded", nil, 0o644))
			j.wrote("then", x.want)
			j.status()
			for _, e := range j.reported() {
				if e.Target == j.outside && e.Kind == "denial" && e.Authority != "host" {
					t.Errorf("it's denied by %+v, want a rule of the host's", e)
				}
			}
		})
	}
}

// A command that changes its TMPDIR neither prevents a reload nor gains access to a symlink's target.
func TestSpoiltTmpDir(t *testing.T) {
	share(t)
	for _, x := range []struct{ spoil, then string }{
		{`chmod 755 "$TMPDIR"`, "yes"},
		{`rmdir "$TMPDIR"`, "no"},
		{`rmdir "$TMPDIR" && ln -s ELSEWHERE "$TMPDIR"`, "no"},
	} {
		j := newJob(t, nobodyUID, more, x.spoil+` && echo spoilt >can; until [ -e reloaded ]; do sleep 0.1; done
(echo x >"$TMPDIR/x") 2>/dev/null && echo yes >then || echo no >then`)
		elsewhere := filepath.Dir(j.events)
		j.Args[len(j.Args)-1] = strings.ReplaceAll(j.Args[len(j.Args)-1], "ELSEWHERE", elsewhere)
		hostDenies(t, j.outside)
		j.start()
		j.wrote("can", "spoilt")
		if out, code := ask(t, nobodyUID, "sessions", "reload", sessions(t, nobodyUID)[0].ID, "--policy", j.write("../next.toml", more)); code != 0 {
			t.Errorf("%s: reload: %d, %s", x.spoil, code, out)
		}
		must(t, os.WriteFile(j.workspace+"/reloaded", nil, 0o644))
		j.wrote("then", x.then)
		j.status()
	}
}

// A client in a mount namespace of its own, without the host's policies and with the denied files under different names, gets no session.
func TestHostPoliciesMounts(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, more, `read x <b/hostname && echo yes >can`)
	hostDenies(t, "/etc/hostname")
	must(t, os.Mkdir(j.workspace+"/b", 0o755))
	args := append([]string{"-Urm", "sh", "-c", `mount -t tmpfs none /etc/toolguard && mount --bind /etc b && exec "$0" "$@"`}, j.Args...)
	unshare := exec.Command("unshare", args...)
	j.Path, j.Args, j.SysProcAttr = unshare.Path, unshare.Args, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
	if code := j.start().status(); code == 0 || !strings.Contains(j.out.String(), "another mount namespace") {
		t.Errorf("%d: %s", code, j.out.String())
	}
	if _, err := os.Stat(j.workspace + "/can"); err == nil {
		t.Error("the command ran")
	}
}

// The host's policies also apply to a request that toolguard didn't make.
func TestHostPoliciesByHand(t *testing.T) {
	share(t)
	c := readonly(t)
	start := func() (s api.Session) {
		must(t, (&api.Client{Socket: socket}).Do("POST", api.Sessions, api.Start{Policy: c, Argv: []string{"true"}}, &s))
		t.Cleanup(func() { _, _ = ask(t, 0, "sessions", "kill", s.ID) })
		return s
	}
	if s := start(); s.Digest != c.Digest {
		t.Errorf("without a host's policy it's %+v", s)
	}
	hostDenies(t, "/etc/hostname")
	if s := start(); s.Digest == c.Digest || !slices.Contains(s.Files, hostFile) {
		t.Errorf("with one it's %+v", s)
	}
	must(t, os.WriteFile(hostFile, []byte("version = 1\nnonsense = 2\n"), 0o644))
	err := (&api.Client{Socket: socket}).Do("POST", api.Sessions, api.Start{Policy: c, Argv: []string{"true"}}, nil)
	if err == nil || !strings.Contains(err.Error(), hostFile+":2:1") {
		t.Errorf("with one that can't be read: %v", err)
	}
}

// readonly is a built-in policy, compiled.
func readonly(t *testing.T) *policy.Compiled {
	t.Helper()
	src, _, err := policyfile.Load(policyfile.Request{
		Policies: []string{"preset:readonly"}, Dir: "/tmp", Workspace: "/tmp", Path: "/usr/bin",
	}, hostfs.Machine{})
	must(t, err)
	c, err := policy.Compile(src, hostfs.Machine{})
	must(t, err)
	return c
}
