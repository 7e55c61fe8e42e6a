package backend

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// docs/BACKENDS.md has the stated gaps of the bpf backend, also on machines without it. Package test compares those of landlock.
func TestGapsInDocs(t *testing.T) {
	page := childtest.ReadFile(t, "../../../docs/BACKENDS.md")
	for _, gap := range slices.Concat(bpfGaps, daemonGaps) {
		if !strings.Contains(string(page), "\n- "+gap+"\n") {
			t.Errorf("docs/BACKENDS.md doesn't have this gap:\n- %s", gap)
		}
	}
}

// If a policy allows io_uring and it stays denied, the rows of system calls have the reason, unless an authority doesn't allow it.
func TestRingsRow(t *testing.T) {
	granted := policy.Syscalls{Allow: []string{"io_uring_setup"}}
	for _, x := range []struct {
		syscalls []policy.Syscalls // an authority's each
		abi      int
		why      string
	}{
		{[]policy.Syscalls{granted}, 7, seccomp.RingsDenied},
		{[]policy.Syscalls{granted, {}}, 7, seccomp.RingsDenied},
		{[]policy.Syscalls{granted}, seccomp.FullMediation, ""},
		{[]policy.Syscalls{granted, {Allow: []string{"bpf"}}}, 7, ""},
		{[]policy.Syscalls{{}}, 7, ""},
	} {
		source := &policy.Source{Name: "test", Workspace: "/", Home: "/"}
		for i, calls := range x.syscalls {
			source.Layers = append(source.Layers, policy.SourceLayer{Authority: policy.Authority(int(policy.Host) + i), Syscalls: calls})
		}
		c := policytest.CompileSource(t, source, hostfs.Machine{})
		rows := []policy.Enforceability{{ID: "syscalls"}, {ID: "fs"}, {ID: "host.syscalls"}}
		if got := reportRings(c, rows, seccomp.Backend{ABI: x.abi}); got[0].Why != x.why || got[1].Why != "" || got[2].Why != x.why {
			t.Errorf("%+v with ABI %d: %+v", x.syscalls, x.abi, got)
		}
	}
}

// Rules about variables of commands are only partly enforced, because the BPF programs don't check variables.
func TestEnvsOfCommands(t *testing.T) {
	for _, rule := range []policy.CommandRule{{Name: "/usr/bin/true"}, {Name: "/usr/bin/true", HasEnvs: true, Envs: []string{"PATH"}}} {
		want := policy.Enforced
		if rule.HasEnvs {
			want = policy.Partly
		}
		layer := policy.SourceLayer{Authority: policy.Session, Commands: []policy.CommandRule{rule}}
		c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, hostfs.Machine{})
		rows := reportPrograms(c, nil)
		if last := rows[len(rows)-1]; last.Status != want {
			t.Errorf("envs %v: %+v, want %s", rule.HasEnvs, last, want)
		}
	}
}
