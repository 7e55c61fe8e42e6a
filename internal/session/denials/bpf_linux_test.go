package denials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// policyOf is a policy that allows commands.
func policyOf(t *testing.T, commands ...policy.CommandRule) *policy.Compiled {
	t.Helper()
	layer := policy.SourceLayer{Authority: policy.Session, Commands: commands}
	return nettest.Policy(t, layer)
}

// describe returns the event of a denial under such a policy.
func describe(t *testing.T, commands []policy.CommandRule, k loader.Event) event.Event {
	t.Helper()
	c := policyOf(t, commands...)
	k.Layer = len(c.Layers) - 1
	return Describe(&Config{}, c, &k, nil)
}

// The secrets of a command line are redacted, and the suggested grant is for the arguments.
func TestDeniedArguments(t *testing.T) {
	e := describe(t, []policy.CommandRule{{Name: "/usr/bin/true", HasArgs: true, Args: [][]string{{"status"}}}}, loader.Event{
		Op: loader.OpCommand, Why: loader.WhyArgs, Args: "true\x00login\x00--password\x00hunter2\x00https://ann:hunter2@example.com/\x00",
		Paths: []loader.Asked{{Path: "/usr/bin/true"}},
	})
	if want := "true login --password *** https://***@example.com/"; e.Asked != want || e.Reason != "args_not_listed" {
		t.Errorf("asked %q, reason %s; want %q", e.Asked, e.Reason, want)
	}
	none := describe(t, []policy.CommandRule{{Name: "/usr/bin/true", HasArgs: true}}, loader.Event{
		Op: loader.OpCommand, Why: loader.WhyArgs, Args: "true\x00", Paths: []loader.Asked{{Path: "/usr/bin/true"}},
	})
	if none.Asked != "true" {
		t.Errorf("without arguments: asked %q", none.Asked)
	}
	if strings.Contains(e.Suggest, "hunter2") || !strings.Contains(e.Suggest, `["status"], ["login", "--password", "***"`) {
		t.Errorf("suggests %s", e.Suggest)
	}
}

// The kernel checks the arguments of a script when it executes the interpreter: the event names the script.
func TestDeniedScript(t *testing.T) {
	commands := []policy.CommandRule{{Name: "/usr/bin/true", HasArgs: true, Args: [][]string{{"status"}}}}
	c := policyOf(t, commands...)
	rule := c.Layers[len(c.Layers)-1].Commands.Rules()[0]
	e := describe(t, commands, loader.Event{
		Op: loader.OpCommand, Why: loader.WhyArgs, Rule: int(rule.Index), Args: "true\x00push\x00", Paths: []loader.Asked{{Path: "/usr/bin/interpreter"}},
	})
	if e.Target != rule.Command.Program || e.Asked != "true push" || e.Rule != rule.ID {
		t.Errorf("%+v", e)
	}
}

// The event about memory without a path explains what to do instead.
func TestDeniedMemory(t *testing.T) {
	for _, op := range []loader.Op{loader.OpExecute, loader.OpMap} {
		e := describe(t, nil, loader.Event{Op: op, Why: loader.WhyRule, Walk: loader.WalkInternal})
		if e.Resource != "fs" || e.Capability != "execute" || e.Reason != "no_rule" || !strings.Contains(e.Extra["why"], "memfd") {
			t.Errorf("%s: %+v", op, e)
		}
	}
}

// Of two paths, the denied one is the target.
func TestDeniedUnresolved(t *testing.T) {
	from, to := loader.Asked{Path: "/w/a", Need: policy.Delete}, loader.Asked{Path: "/deep", Need: policy.Create}
	for _, x := range []struct {
		paths         []loader.Asked
		target, other string
	}{
		{[]loader.Asked{from, to}, "/w/a", "to /deep"},
		{[]loader.Asked{{Path: "/w/a", Need: policy.Delete, Have: policy.Delete}, to}, "/deep", "from /w/a"},
		{[]loader.Asked{to}, "/deep", ""},
	} {
		e := describe(t, nil, loader.Event{Op: loader.OpRename, Why: loader.WhyUnresolved, Walk: loader.WalkDeep, Paths: x.paths})
		other := ""
		for _, way := range []string{"from", "to"} {
			if p := e.Extra[way]; p != "" {
				other += way + " " + p
			}
		}
		if e.Target != x.target || other != x.other || e.Reason != "path_unresolved" || e.Extra["why"] != "following the path: too deep" {
			t.Errorf("%s (%s): %+v", e.Target, other, e)
		}
	}
}

// The denial of creating a file that exists has no effect, so it isn't reported.
func TestDeniedMoot(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	childtest.Must(t, os.WriteFile(there, nil, 0o600))
	childtest.Must(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	const unknown = loader.CreateUnknown
	for _, x := range []struct {
		op     loader.Op
		detail uint32
		why    loader.Why
		after  time.Duration // the time of the denial, from now
		path   string
		want   int
	}{
		{loader.OpCreate, unknown, loader.WhyRule, time.Second, there, 0},
		{loader.OpCreate, unknown, loader.WhyRule, -time.Hour, there, 1},
		{loader.OpCreate, 0, loader.WhyRule, time.Second, there, 1},
		{loader.OpCreate, unknown, loader.WhyRule, time.Second, filepath.Join(dir, "link"), 0},
		{loader.OpCreate, unknown, loader.WhyRule, time.Second, "/proc/4711/fd/2", 0},
		{loader.OpCreate, unknown, loader.WhyRule, time.Second, filepath.Join(dir, "new"), 1},
		{loader.OpCreate, unknown, loader.WhyAlways, time.Second, there, 1},
		{loader.OpOpen, unknown, loader.WhyRule, time.Second, there, 1},
		{loader.OpRename, unknown, loader.WhyRule, time.Second, there, 1},
	} {
		d := NewCollector(Config{Policy: policyOf(t)})
		d.handleBPF(d.policy, loader.Event{Op: x.op, Detail: x.detail, Why: x.why, Time: time.Now().Add(x.after), Layer: -1, Rule: -1, PID: 1, Paths: []loader.Asked{{Path: x.path, Need: policy.Create}}})
		if len(d.list) != x.want && d.more == 0 {
			t.Errorf("%+v: %+v", x, d.list)
		}
	}
}

// A denial that doesn't depend on rules names its object.
func TestDeniedOutside(t *testing.T) {
	first := childtest.ReadFile(t, "/proc/1/comm")
	for _, c := range []struct {
		k                    loader.Event
		resource, capability string
		reason               policy.Reason
		target               string
	}{
		{loader.Event{Op: loader.OpSignal, Why: loader.WhyOutside, Other: 1}, "always", "signal", policy.SyscallDenied, strings.TrimSpace(string(first))},
		{loader.Event{Op: loader.OpUnix, Why: loader.WhyOutside}, "net", "connect", policy.HostNotListed, ""},
		{loader.Event{Op: loader.OpOption, Why: loader.WhyNet, Detail: 78<<16 | 41}, "net", "setsockopt", policy.HostNotListed, "option 78 of level 41"},
		{loader.Event{Op: loader.OpKernel, Why: loader.WhyAlways, Detail: 3}, "always", "kernel", policy.SyscallDenied, "loading a module"},
		{loader.Event{Op: loader.OpMount, Why: loader.WhyAlways, Detail: 6}, "always", "mount", policy.SyscallDenied, "chroot"},
		{loader.Event{Op: loader.OpNamespace, Why: loader.WhyAlways}, "always", "namespace", policy.SyscallDenied, ""},
		{loader.Event{Op: loader.OpSignal, Why: loader.WhyFiles, Detail: 8}, "always", "signal", policy.Limit, ""},
	} {
		e := describe(t, nil, c.k)
		if e.Resource != c.resource || e.Capability != c.capability || e.Reason != string(c.reason) || e.Target != c.target {
			t.Errorf("%s: %+v", c.k.Op, e)
		}
	}
}

// The denial of a move that would gain access names the rule that denies it, which depends on what is moved.
func TestDeniedGain(t *testing.T) {
	all := policy.AllCaps
	layer := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{
		{Path: "/w", Caps: all}, {Path: "/w/less", Caps: policy.Delete | policy.Read | policy.Update}, {Path: "/w/dir/secret"},
	}}
	c := nettest.Policy(t, layer)
	warnings := 0
	d := NewCollector(Config{Policy: c, Warn: func(string) { warnings++ }})
	exchange := policy.Delete | policy.Update
	for _, k := range []struct {
		op        loader.Op
		detail    uint32
		old, new  string
		need, to  policy.Caps
		rule, why string
	}{
		{loader.OpRename, 0, "/w/less/file", "/w/file", policy.Delete, policy.Create, "fs.2", "no_gain"},
		{loader.OpRename, 0, "/w/less/file", "/w/file", policy.Delete, policy.Update, "fs.2", "no_gain"},
		{loader.OpLink, 0, "/w/less/file", "/w/file", policy.Read, policy.Create, "fs.2", "no_gain"},
		{loader.OpRename, loader.MoveDir, "/w/dir", "/w/dir2", policy.Delete, policy.Create, "fs.3", "no_gain"},
		{loader.OpRename, loader.MoveBack, "/w/file", "/w/less/file", exchange, exchange, "fs.2", "no_gain"},
		{loader.OpRename, loader.MoveBack | loader.MoveBackDir, "/w/file", "/w/dir", exchange, exchange, "fs.3", "no_gain"},
		{loader.OpRename, 0, "/w/dir", "/w/dir2", policy.Delete, policy.Create, "", "engine_error"},
	} {
		record := loader.Event{
			PID: 1, Op: k.op, Why: loader.WhyGain, Detail: k.detail, Layer: -1, Rule: -1, Paths: []loader.Asked{{Path: k.old, Need: k.need}, {Path: k.new, Need: k.to}},
		}
		d.handleBPF(c, record)
		e := Describe(&d.cfg, c, &record, nil)
		if e.Rule != k.rule || e.Reason != k.why || e.Target != k.old || e.Extra["to"] != k.new {
			t.Errorf("%s of %s to %s: rule %q, %s: %+v", k.op, k.old, k.new, e.Rule, e.Reason, e)
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings of a disagreement, want one", warnings)
	}
}

// The event of a file that was renamed after its denial has the kernel's rule, whatever the evaluator decides about the new path.
func TestDeniedMoved(t *testing.T) {
	layer := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: "/w", Caps: policy.AllCaps}, {Path: "/w/secret"}}}
	c := nettest.Policy(t, layer)
	last := len(c.Layers) - 1
	asked := loader.Asked{Path: "/w/open", Need: policy.Delete}
	for _, x := range []struct {
		k      loader.Event
		rule   string
		reason policy.Reason
	}{
		{loader.Event{Why: loader.WhyRule, Rule: int(c.Layers[last].FS.Rules()[1].Index), Paths: []loader.Asked{asked}}, "fs.2", policy.RuleDenies},
		{loader.Event{Why: loader.WhyRule, Rule: -1, Paths: []loader.Asked{asked}}, "", policy.NoRule},
		{loader.Event{Why: loader.WhyGain, Rule: -1, Paths: []loader.Asked{asked, asked}}, "", policy.NoGain},
	} {
		x.k.Op, x.k.Layer, x.k.Walk = loader.OpRename, last, loader.WalkMoved
		if e := Describe(&Config{}, c, &x.k, nil); e.Reason != string(x.reason) || e.Rule != x.rule || e.Target != "/w/open" {
			t.Errorf("%s by %q of %s, want %s by %q", e.Reason, e.Rule, e.Target, x.reason, x.rule)
		}
	}
}

// The denial of a file because of another of its hard links has the rule that names that link.
func TestDeniedLink(t *testing.T) {
	layer := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: "/w", Caps: policy.AllCaps}, {Path: "/data/a", Caps: policy.Read}}}
	c := nettest.Policy(t, layer)
	last := len(c.Layers) - 1
	k := loader.Event{
		Op: loader.OpOpen, Why: loader.WhyRule, Layer: last, Rule: int(c.Layers[last].FS.Rules()[1].Index),
		Paths: []loader.Asked{{Path: "/w/b", Need: policy.Update, Have: policy.Read}},
	}
	if e := Describe(&Config{}, c, &k, nil); e.Reason != string(policy.EngineError) {
		t.Errorf("the rule doesn't apply to other hard links: %+v", e)
	}
	c.Links = []policy.Link{{Rule: int32(k.Rule), Layer: int16(last)}}
	if e := Describe(&Config{}, c, &k, nil); e.Reason != string(policy.RuleDenies) || e.Rule != "fs.2" || e.Target != "/w/b" {
		t.Errorf("%s by %s of %s", e.Reason, e.Rule, e.Target)
	}
}

// The counts of a session aren't read while it ends, because their memory may be freed. The last counts are reported.
func TestCountsOfTheEnd(t *testing.T) {
	d := NewCollector(Config{Policy: &policy.Compiled{}})
	d.counts = func() loader.Counts {
		t.Error("the counts were read while the session ended")
		return loader.Counts{}
	}
	counts := d.drainKernel(func() loader.Counts {
		d.tick()
		return loader.Counts{Suppressed: 3}
	})
	if counts.Suppressed != 3 || d.lost != 3 || d.counts != nil {
		t.Errorf("%+v, %d reported", counts, d.lost)
	}
}
