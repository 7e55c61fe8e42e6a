package landlock

import (
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func TestMain(m *testing.M) { childtest.Main(m, runChild) }

// childInput has the plan that a child applies (nil: unconfined) and the operations that it performs.
type childInput struct {
	Plan       *Plan
	Operations []string
	Canary     *injectedErrno // run the canary instead, with this error injected
}

// results are the errors of operations, 0 for success.
type results map[string]syscall.Errno

func runChild(o childInput) (results, error) {
	if o.Canary != nil {
		if err := o.Canary.install(); err != nil {
			return nil, err
		}
		return nil, Canary()
	}
	if o.Plan != nil {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, err
		}
		if err := applyAll(o.Plan); err != nil {
			return nil, err
		}
	}
	got := results{}
	for _, d := range o.Operations {
		got[d] = perform(d)
	}
	return got, nil
}

// applyAll restricts the thread as a command is restricted.
func applyAll(p *Plan) error {
	if err := p.Apply(); err != nil {
		return err
	}
	ruleset, flags, err := p.InnerArgs()
	if err != nil {
		return err
	}
	return ll.LandlockRestrictSelf(ruleset, flags)
}

// inChild performs operations in a child under a plan (nil: unconfined), as a user.
func inChild(t *testing.T, uid int, p *Plan, ops ...string) results {
	t.Helper()
	if p != nil {
		p = withoutRules(p)
	}
	return childtest.Run[results](t, uid, childInput{Plan: p, Operations: ops})
}

// withoutRules returns the plan without the rules, which only error messages need.
func withoutRules(p *Plan) *Plan {
	q := &Plan{ABI: p.ABI, Inner: p.Inner}
	for _, rs := range p.Rulesets {
		grants := rs.Grants
		rs.Grants = nil
		for _, g := range grants {
			g.Rule = nil
			rs.Grants = append(rs.Grants, g)
		}
		q.Rulesets = append(q.Rulesets, rs)
	}
	return q
}

// abi returns the kernel's ABI, or skips the test if the kernel reports none.
func abi(t testing.TB) int {
	t.Helper()
	abi, _, err := Probe()
	if err != nil {
		if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1); e == 0 { // LANDLOCK_CREATE_RULESET_VERSION
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return abi
}

// compileAt compiles a policy of one session layer for a real workspace.
func compileAt(t testing.TB, ws string, l policy.SourceLayer) *policy.Compiled {
	t.Helper()
	l.Authority = policy.Session
	return compileSource(t, hostfs.Machine{}, &policy.Source{Workspace: ws, Layers: []policy.SourceLayer{l}})
}

func compileSource(t testing.TB, sys fspath.FileSystem, src *policy.Source) *policy.Compiled {
	t.Helper()
	src.Name, src.Home = "test", src.Workspace
	if src.Path == "" {
		src.Path = "/usr/bin:/bin"
	}
	return policytest.CompileSource(t, src, sys)
}

func rule(path string, caps policy.Caps) policy.FSRule { return policy.FSRule{Path: path, Caps: caps} }

// runtimeRules returns the rules that programs of this machine need to start.
func runtimeRules() []policy.FSRule {
	var out []policy.FSRule
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		out = append(out, policy.FSRule{Path: p, Caps: policy.Read | policy.Execute, Optional: true})
	}
	return append(out, policy.FSRule{Path: "/dev/null", Caps: policy.Read | policy.Update, Optional: true})
}
