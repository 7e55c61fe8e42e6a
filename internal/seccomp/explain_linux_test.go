package seccomp

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

func TestExplain(t *testing.T) {
	m, err := native()
	if err != nil {
		t.Skip(err)
	}
	nr := func(name string) int {
		nr, _ := m.number(name)
		return nr
	}
	at := policy.Position{File: "p.toml", Line: 3, Col: 1}
	closed := compile(t, denies(policy.FS, policy.Net))
	named := compile(t, policy.SourceLayer{Syscalls: policy.Syscalls{Deny: []string{"kcmp", "ioctl"}, Position: at}})
	noNet, noFS, allows := compile(t, denies(policy.Net)), compile(t, denies(policy.FS)), compile(t, policy.SourceLayer{})
	onlyTCP := compile(t, with(policy.SourceLayer{}, tcp))
	granted := compile(t, syscalls(denies(policy.FS, policy.Net), policy.Syscalls{Allow: rings, Position: at}))
	arch := m.auditArch()
	for _, c := range []struct {
		what string
		c    *policy.Compiled
		arch uint32
		nr   int
		args *[6]uint64
		want Cause // Text: some of it
	}{
		{"io_uring", closed, arch, nr("io_uring_setup"), nil, Cause{ID: "seccomp.io_uring", Errno: "ENOSYS", Resource: "syscall"}},
		{"io_uring, granted", granted, arch, nr("io_uring_setup"), nil, Cause{ID: "seccomp.io_uring", Position: at, Errno: "ENOSYS", Resource: "syscall"}},
		{"inet", closed, arch, nr("socket"), &[6]uint64{2, 1, 0}, Cause{ID: "net", Text: "nothing is granted", Errno: "EACCES", Resource: "net", Reason: policy.NoRule}},
		{"unix", closed, arch, nr("socket"), &[6]uint64{1, 1, 0}, Cause{ID: "seccomp.socket", Errno: "EACCES", Resource: "fs"}},
		{"packet", closed, arch, nr("socket"), &[6]uint64{17, 3, 0}, Cause{ID: "seccomp.socket", Errno: "EACCES", Resource: "syscall"}},
		{"udp with tcp granted", onlyTCP, arch, nr("socket"), &[6]uint64{2, 2, 0}, Cause{ID: "net", Text: "for this kind", Errno: "EACCES", Resource: "net", Reason: policy.NoRule}},
		{"raw", allows, arch, nr("socket"), &[6]uint64{2, 3, 0}, Cause{ID: "seccomp.socket", Text: "always on", Errno: "EACCES", Resource: "syscall"}},
		{"some socket", closed, arch, nr("socket"), nil, Cause{ID: "seccomp.socket", Text: "no internet and no unix socket", Errno: "EACCES", Resource: "net"}},
		{"some socket, no net", noNet, arch, nr("socket"), nil, Cause{ID: "seccomp.socket", Text: "net grants nothing: no internet socket", Errno: "EACCES", Resource: "net"}},
		{"some socket, no fs", noFS, arch, nr("socket"), nil, Cause{ID: "seccomp.socket", Text: "fs is restricted: no unix socket", Errno: "EACCES", Resource: "net"}},
		{"some socket, tcp", onlyTCP, arch, nr("socket"), nil, Cause{ID: "seccomp.socket", Text: "net doesn't grant", Errno: "EACCES", Resource: "net"}},
		{"some socket, open", allows, arch, nr("socket"), nil, Cause{ID: "seccomp.socket", Text: "always on", Errno: "EACCES", Resource: "net"}},
		{"listening", onlyTCP, arch, nr("listen"), nil, Cause{ID: "net", Text: "with `listen` and the port", Errno: "EACCES", Resource: "net", Reason: policy.HostNotListed}},
		{"terminal", closed, arch, nr("ioctl"), &[6]uint64{0, 1<<40 | 0x5412}, Cause{ID: "seccomp.terminal", Errno: "EPERM", Resource: "syscall"}},
		{"a harmless ioctl", closed, arch, nr("ioctl"), &[6]uint64{0, 0x5413}, Cause{}},
		{"lease", closed, arch, nr("fcntl"), &[6]uint64{3, 1<<40 | 1024, 1}, Cause{ID: "seccomp.lease", Errno: "EACCES", Resource: "syscall"}},
		{"some fcntl", closed, arch, nr("fcntl"), nil, Cause{ID: "seccomp.lease", Errno: "EACCES", Resource: "syscall"}},
		{"a harmless fcntl", closed, arch, nr("fcntl"), &[6]uint64{3, 1025}, Cause{}},
		{"a priority", closed, arch, nr("setpriority"), &[6]uint64{0, 1, 19}, Cause{ID: "seccomp.priority", Errno: "EPERM", Resource: "syscall"}},
		{"its own priority", closed, arch, nr("setpriority"), &[6]uint64{0, 0, 19}, Cause{}},
		{"the policy's name", named, arch, nr("kcmp"), nil, Cause{ID: "syscalls.deny", Position: at, Errno: "EPERM", Resource: "syscall"}},
		{"the policy's name, with conditions of its own", named, arch, nr("ioctl"), nil, Cause{ID: "syscalls.deny", Position: at, Errno: "EPERM", Resource: "syscall"}},
		{"allowed", closed, arch, nr("read"), nil, Cause{}},
		{"newer", closed, arch, 470, nil, Cause{ID: "seccomp.newer", Errno: "ENOSYS", Resource: "syscall"}},
		{"foreign", closed, unix.AUDIT_ARCH_I386, 20, nil, Cause{ID: "seccomp.abi", Errno: "SIGSYS", Resource: "syscall"}},
		{"x32", closed, arch, 0x40000000 | 39, nil, Cause{ID: "seccomp.abi", Errno: "SIGSYS", Resource: "syscall"}},
	} {
		got, ok := Explain(c.c, Backend{ABI: 7}, c.arch, c.nr, c.args)
		if ok != (c.want != Cause{}) || ok && got.Text == "" || !strings.Contains(got.Text, c.want.Text) {
			t.Errorf("%s: %v, %+v", c.what, ok, got)
		}
		if ok && c.want.Reason == "" {
			c.want.Reason = policy.SyscallDenied
		}
		if got.Text = c.want.Text; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
		if got.Suggest != "" {
			t.Errorf("%s: suggests %s", c.what, got.Suggest)
		}
		if got := Arch(c.nr, c.want.ID == "seccomp.abi"); got != c.arch {
			t.Errorf("%s: architecture %#x", c.what, got)
		}
	}
}

// TestExplainListen checks that where the session's own servers are distinguishable, a rule for them is suggested.
func TestExplainListen(t *testing.T) {
	m, err := native()
	if err != nil {
		t.Skip(err)
	}
	nr, _ := m.number("listen")
	got, ok := Explain(compile(t, with(policy.SourceLayer{}, tcp)), Backend{ABI: 7, Net: true}, m.auditArch(), nr, nil)
	own := policy.NetRule{Host: "localhost", Listen: true, Allow: true}
	if want := "[[access.net]]\nhost = \"localhost\"\nlisten = true\nallow = true\n"; !ok || got.Suggest != want {
		t.Errorf("%v, %+v", ok, got)
	}
	if _, denied := Explain(compile(t, with(policy.SourceLayer{}, tcp, own)), Backend{ABI: 7, Net: true}, m.auditArch(), nr, nil); denied {
		t.Error("the suggestion doesn't allow it")
	}
}
