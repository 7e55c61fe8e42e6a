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
)

func TestMain(m *testing.M) { childtest.Main(m, obey) }

// order is what a child is to do: apply a plan, or none as the control, and try each of the deeds.
type order struct {
	Plan   *Plan
	Deeds  []string
	Canary *answer // how a system call is answered meanwhile
}

// results are the errors of deeds, 0 for success.
type results map[string]syscall.Errno

func obey(o order) (results, error) {
	if o.Canary != nil {
		if err := o.Canary.instead(); err != nil {
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
	for _, d := range o.Deeds {
		got[d] = try(d)
	}
	return got, nil
}

// applyAll does to the thread what is done to a command.
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

// inChild tries deeds in a child under a plan (nil: bare), as a user.
func inChild(t *testing.T, uid int, p *Plan, deeds ...string) results {
	t.Helper()
	if p != nil {
		p = withoutRules(p)
	}
	return childtest.Run[results](t, uid, order{Plan: p, Deeds: deeds})
}

// withoutRules is the plan without what only error messages need.
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

// abi is the kernel's, or skips the test where there is none to test, by the kernel's own word.
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

// compileAt makes a policy of one session layer over a real workspace.
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
	c, err := policy.Compile(src, sys)
	childtest.Must(t, err)
	return c
}

func rule(path string, caps policy.Caps) policy.FSRule { return policy.FSRule{Path: path, Caps: caps} }

// runtimeRules are what programs of this machine need to start.
func runtimeRules() []policy.FSRule {
	var out []policy.FSRule
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		out = append(out, policy.FSRule{Path: p, Caps: policy.Read | policy.Execute, Optional: true})
	}
	return append(out, policy.FSRule{Path: "/dev/null", Caps: policy.Read | policy.Update, Optional: true})
}
