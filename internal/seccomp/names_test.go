package seccomp

import (
	"errors"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"

	"github.com/toolguard/toolguard/internal/policy"
)

func TestName(t *testing.T) {
	const x86, i386, arm64 = 0xc000003e, 0x40000003, 0xc00000b7
	for _, c := range []struct {
		arch uint32
		nr   int
		want string
	}{
		{x86, 41, "socket"},
		{i386, 20, "getpid"},
		{arm64, 198, "socket"},
		{x86, 469, "file_setattr"},
		{arm64, 470, "listns"},
		{x86, 0x40000000 | 39, "getpid"},
		{x86, 9999, ""},
		{x86, -1, ""},
		{0, 1, ""},
	} {
		if got := Name(c.arch, c.nr); got != c.want {
			t.Errorf("Name(%#x, %d) = %q, want %q", c.arch, c.nr, got, c.want)
		}
	}
}

// TestNewestIsTheTables fails when the library's tables grow: then newest and newer must be updated.
func TestNewestIsTheTables(t *testing.T) {
	for _, a := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		top := 0
		for nr := range a.SyscallNumbers {
			top = max(top, nr)
		}
		if top != newest {
			t.Errorf("%s: the newest call is %d, this package believes %d", a.Name, top, newest)
		}
		for _, n := range newer {
			if _, ok := a.SyscallNames[n.name]; ok || n.nr <= newest {
				t.Errorf("%s: %s is in the table", a.Name, n.name)
			}
		}
	}
}

// TestListsAreKnown checks that every listed name is a system call, since a misspelled one would deny nothing.
func TestListsAreKnown(t *testing.T) {
	elsewhere := map[string]bool{"umount": true, "stime": true} // on 32-bit architectures
	check := func(name string) {
		if !known(name) && !elsewhere[name] {
			t.Errorf("no such call: %s", name)
		}
	}
	for _, set := range [][]group{always, hiddenAttributes, strict} {
		for _, g := range set {
			for _, name := range g.names {
				check(name)
			}
		}
	}
	for _, f := range notAllowable {
		check(f.name)
	}
	for _, name := range needed {
		check(name)
	}
}

// TestValidate checks that an unknown name is an error.
func TestValidate(t *testing.T) {
	at := policy.Position{File: "p.toml", Line: 3, Col: 1}
	for _, c := range []struct {
		what string
		s    policy.Syscalls
		want string // part of the message; "" for none
	}{
		{"nothing", policy.Syscalls{}, ""},
		{"default", policy.Syscalls{Profile: "default"}, ""},
		{"strict with names", policy.Syscalls{Profile: "strict", Allow: []string{"ptrace", "io_uring_setup", "listns"}, Deny: []string{"fork"}}, ""},
		{"another architecture's", policy.Syscalls{Deny: []string{"open"}}, ""},
		{"profile", policy.Syscalls{Profile: "paranoid"}, `p.toml:3:1: unknown profile of system calls "paranoid"`},
		{"allow", policy.Syscalls{Allow: []string{"iouring_setup"}}, `unknown system call "iouring_setup" (did you mean io_uring_setup?)`},
		{"deny", policy.Syscalls{Deny: []string{"fnord"}}, `unknown system call "fnord"`},
		{"number 0, a letter too many", policy.Syscalls{Deny: []string{"xread"}}, `did you mean read?`},
		{"two as near", policy.Syscalls{Deny: []string{"dup4"}}, `did you mean dup?`},
		{"case", policy.Syscalls{Deny: []string{"Ptrace"}}, `did you mean ptrace?`},
		{"empty", policy.Syscalls{Deny: []string{""}}, `unknown system call ""`},
		{"mount", policy.Syscalls{Allow: []string{"mount"}}, "no session may change mounts"},
		{"socket", policy.Syscalls{Allow: []string{"socket"}}, "can't be allowed by name"},
		{"both", policy.Syscalls{Allow: []string{"bpf"}, Deny: []string{"bpf"}}, "both allowed and denied"},
		{"execve", policy.Syscalls{Deny: []string{"execve"}}, "no command can start or end"},
	} {
		c.s.Position = at
		err := Validate(&policy.Compiled{Layers: []*policy.Layer{{Authority: policy.Session, Syscalls: c.s}}})
		var list policy.Errors
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (!errors.As(err, &list) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}
