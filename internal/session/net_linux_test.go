package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

func TestResolvers(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       {"127.0.0.1:53"},
		"# nameserver 1.1.1.1\nnameserver\n":     {"127.0.0.1:53"},
		"search x\nnameserver 9.9.9.9\n":         {"9.9.9.9:53"},
		"nameserver fe80::1%eth0 # the router\n": {"[fe80::1%eth0]:53"},
		"nameserver x\nnameserver ::1\nnameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3": {"[::1]:53", "1.1.1.1:53", "1.1.1.2:53"},
	} {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := resolvers(file)
		var all []string
		for _, a := range got {
			all = append(all, a.String())
		}
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("%q: %v, %v; want %v", text, all, err, want)
		}
	}
	if got, err := resolvers(filepath.Join(t.TempDir(), "none")); err != nil || len(got) != 1 {
		t.Errorf("without a file: %v, %v", got, err)
	}
}

func netPolicy(t *testing.T, layers ...policy.SourceLayer) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: layers}, hostfs.Machine{})
	must(t, err)
	return c
}

// There is something to decide where the network is neither free nor wholly refused.
func TestDecidesNet(t *testing.T) {
	some := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{{Host: "a.test", Allow: true}}}
	denied := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{{Host: "a.test"}}}
	none, free := policy.SourceLayer{Authority: policy.Host}, policy.SourceLayer{Authority: policy.Session}
	none.Defaults[policy.Net], free.Defaults[policy.Net] = policy.Deny, policy.Allow
	but := free
	but.Net = denied.Net
	for _, x := range []struct {
		name   string
		layers []policy.SourceLayer
		want   bool
	}{
		{"a grant", []policy.SourceLayer{some}, true},
		{"no grant", []policy.SourceLayer{denied}, false},
		{"nothing", []policy.SourceLayer{none}, false},
		{"a grant within nothing", []policy.SourceLayer{none, some}, false},
		{"everything", []policy.SourceLayer{free}, false},
		{"everything but one", []policy.SourceLayer{but}, true},
	} {
		if got := DecidesNet(netPolicy(t, x.layers...)); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// The program that egress is part of is executed as root: it's nobody's but root's or toolguard's owner's.
func TestEgressProgram(t *testing.T) {
	owner := uint32(os.Getuid())
	for _, x := range []struct {
		name  string
		make  func(file string) error
		owner uint32
		want  string // of the error; "": there's none
	}{
		{"nothing", func(string) error { return nil }, owner, "isn't beside toolguard"},
		{"a program", func(f string) error { return os.WriteFile(f, nil, 0o755) }, owner, ""},
		{"a link to one", func(f string) error {
			return errors.Join(os.WriteFile(f+".1", nil, 0o755), os.Symlink(f+".1", f))
		}, owner, ""},
		{"its group may write it", func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o755), os.Chmod(f, 0o775)) }, owner, "nobody else can write"},
		{"all may write it", func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o755), os.Chmod(f, 0o757)) }, owner, "nobody else can write"},
		{"a folder", func(f string) error { return os.Mkdir(f, 0o755) }, owner, "nobody else can write"},
		{"a fifo", func(f string) error { return unix.Mkfifo(f, 0o755) }, owner, "nobody else can write"},
		{"a stranger's", func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o755), chownIfRoot(f)) }, owner + 1, "nobody else can write"},
	} {
		dir := t.TempDir()
		must(t, x.make(filepath.Join(dir, "toolguardd")))
		fd, err := openProgram([]string{filepath.Join(dir, "none"), dir}, x.owner)
		if err == nil {
			_ = unix.Close(fd)
		}
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// chownIfRoot gives a file away, where that can be done.
func chownIfRoot(file string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(file, 4711, 4711)
}

func TestBundle(t *testing.T) {
	for system, want := range map[string]string{"": "own\n", "a": "a\nown\n", "a\nb\n\n": "a\nb\nown\n"} {
		if got := string(bundle([]byte(system), []byte("own\n"))); got != want {
			t.Errorf("%q: %q", system, got)
		}
	}
}
