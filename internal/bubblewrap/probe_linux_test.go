package bubblewrap

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/mounts/mountstest"
)

func TestFind(t *testing.T) {
	p := program(t)
	if !filepath.IsAbs(p.Path) || !isRecent(p.Version) {
		t.Error(p)
	}
}

// TestTrusted rejects programs that other users could have replaced, and those that run as root.
func TestTrusted(t *testing.T) {
	childtest.NeedsRoot(t, "files of root's and of others")
	dir := t.TempDir()
	make := func(name string, mode os.FileMode, uid int) string {
		p := filepath.Join(dir, name)
		childtest.Must(t, os.WriteFile(p, []byte("x"), 0o700))
		childtest.Must(t, os.Chown(p, uid, 0))
		childtest.Must(t, os.Chmod(p, mode))
		return p
	}
	link := filepath.Join(dir, "link")
	childtest.Must(t, os.Symlink(make("good", 0o755, 0), link))
	for path, want := range map[string]string{
		make("root's", 0o755, 0):               "",
		make("other's", 0o755, 65534):          "isn't owned by root",
		make("group", 0o775, 0):                "can be changed by other users",
		make("setuid", fs.ModeSetuid|0o755, 0): "is setuid",
		make("data", 0o644, 0):                 "isn't executable",
		link:                                   "isn't a regular file",
	} {
		err := trusted(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := trusted(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{"0.8.0": true, "0.11.1": true, "1.0": true, "0.7.9": false, "0.4": false, "x": false, "": false} {
		if isRecent(v) != want {
			t.Error(v)
		}
	}
}

// TestWhyNot recognises each setting that restricts user namespaces.
func TestWhyNot(t *testing.T) {
	for _, c := range []struct{ file, value, want string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "1\n", ""},
		{"/proc/sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces=15000"},
		{"/proc/sys/user/max_user_namespaces", "63000\n", ""},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor profile"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n", ""},
	} {
		got := whyNot(func(file string) ([]byte, error) {
			if file == c.file {
				return []byte(c.value), nil
			}
			return nil, fs.ErrNotExist
		})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s = %q: %q", c.file, c.value, got)
		}
	}
}

// TestCanary runs the canary as every user, and as a program that makes no mounts.
func TestCanary(t *testing.T) {
	p := program(t)
	for _, uid := range childtest.Users() {
		cmd := childtest.Command(t, uid, mountstest.Stage{Canary: p.Path})
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "{}" {
			t.Errorf("as %d: %v %s", uid, err, out)
		}
	}
	fake := filepath.Join(t.TempDir(), "bwrap")
	for script, want := range map[string]string{
		`while [ "$1" != -- ]; do [ "$1" = --chdir ] && cd "$2"; shift; done; shift; exec "$@"`: "canary had the results",
		"echo bwrap: No permissions to create new namespace >&2; exit 1":                        "No permissions to create new namespace",
		`echo "bwrap: Can't mount proc on /newroot/proc: Operation not permitted" >&2; exit 1`:  "systempaths=unconfined",
	} {
		childtest.Must(t, os.WriteFile(fake, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		if err := (Program{Path: fake}).Canary(); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
