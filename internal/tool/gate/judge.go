package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// judge decides one call. The first denial is the answer's; it stops at it.
type judge struct {
	*Request
	dir     string // the call's working directory, absolute
	denied  *Answer
	allowed *Answer           // the first target that is allowed
	unclear []program.Unclear // what isn't known
	listed  bool              // each command so far is allowed by a rule that names it
	ran     bool              // the call runs a command
	odd     []*value          // texts without a role, of a tool that executes something or changes files
	found   bool              // the call names a file
	calls   int               // programs that were judged

	args           *walker             // the call's arguments
	commands, argv map[*object][]value // of them the commands, and their further arguments, by the object that has them
}

// target is something that a call needs.
type target struct {
	q          explain.Question
	shown      string // as it is in the call
	capability string
	path       bool
}

// done reports that nothing can change the answer any more.
func (j *judge) done() bool { return j.denied != nil }

func (j *judge) doubt(word, why string) {
	j.unclear = append(j.unclear, program.Unclear{Word: word, Why: why})
}

// ask asks the policy about one target.
func (j *judge) ask(t target) {
	if !j.done() {
		j.take(t, j.check(t))
	}
}

// check is the answer of the policy. Beyond it, the folder that contains the workspace can count as workspace.
func (j *judge) check(t target) explain.Answer {
	_, a := explain.Ask(j.Policy, j.Files, t.q)
	if a.Decision != Allow && t.q.Resource == policy.FS && j.Parent != nil {
		t.q.Target = absolute(j.Policy.Workspace, t.q.Target)
		if _, wider := explain.Ask(j.Parent, j.Files, t.q); wider.Decision == Allow {
			return wider
		}
	}
	return a
}

// take notes an answer of the policy.
func (j *judge) take(t target, a explain.Answer) {
	if a.Decision == Allow {
		if j.allowed == nil {
			j.allowed = j.answer(t, a)
		}
		return
	}
	j.denied = j.answer(t, a)
}

// answer describes what the policy decided about a target.
func (j *judge) answer(t target, a explain.Answer) *Answer {
	t.shown = clipTo(t.shown, maxShown)
	out := &Answer{Decision: a.Decision, Reason: string(a.Reason), Capability: t.capability}
	if t.path {
		out.Path = t.shown
	}
	verb, what := "allowed", t.capability
	if a.Decision != Allow {
		verb = "denied"
	}
	if what == "unknown" {
		what = "any use of"
	}
	out.Message = fmt.Sprintf("%s %s is %s: %s (%s)", what, cmp.Or(clipTo(a.Target, maxShown), t.shown), verb, explain.Why(a.Reason, a.Rule), a.Reason)
	if a.Rule != nil {
		out.Rule = &Rule{a.Rule.ID, a.Rule.Authority, a.Rule.Position}
		out.Declared = a.Decision == Allow && j.declares(a.Rule)
		out.Message += fmt.Sprintf(", %s at %s", a.Rule.ID, a.Rule.Position)
	}
	for _, more := range []string{a.Note, a.Advice} {
		if more != "" {
			out.Message += "; " + more
		}
	}
	if a.Decision != Allow {
		out.Suggest = j.inTable(a.Suggest, t.q.Resource)
		out.Grants = grants(j.Policy, t.q.Resource)
		out.model = j.modelText(t, &a)
	}
	return out
}

// inTable moves a suggested rule into the tool's own table, if that has rules about the resource: elsewhere the rule would be for all tools.
func (j *judge) inTable(suggest string, of policy.Resource) string {
	if !slices.ContainsFunc(j.Policy.Rules, func(r *policy.Rule) bool { return r.Resource == of && j.declares(r) }) {
		return suggest
	}
	table := "tools." + tomltext.Key(j.Call.Tool) + ".access"
	suggest = strings.ReplaceAll(suggest, "[[access.", "[["+table+".")
	return strings.ReplaceAll("\n"+suggest, "\n[access.", "\n["+table+".")[1:]
}

// maxShown is how many bytes of a target an answer has.
const maxShown = 4096

// declares reports whether a rule is one of the tool's own table.
func (j *judge) declares(r *policy.Rule) bool {
	return !r.Builtin() && j.Base != nil && !slices.ContainsFunc(j.Base.Rules, func(b *policy.Rule) bool {
		return b.Position == r.Position && b.Resource == r.Resource
	})
}

// modelText is the first line of what a model gets: the grammar fixes its forms.
func (j *judge) modelText(t target, a *explain.Answer) string {
	switch outside := t.path && !strings.HasPrefix(a.Target+"/", j.Policy.Workspace+"/"); {
	case outside && strings.HasPrefix(a.Target, "/") && a.Reason != policy.PathUnresolved:
		return fmt.Sprintf("File sandboxing violation: Path '%s' is outside project directory '%s'. Operation blocked for security.", t.shown, j.Policy.Workspace)
	case a.Reason == policy.WorkspaceEscape:
		return "path escapes the workspace: " + t.shown
	}
	return fmt.Sprintf("access denied: %s on %s", t.capability, t.shown)
}

// maxGrants is how many grants an answer names.
const maxGrants = 8

// grants are the rules of a policy that grant something of a resource, for people.
func grants(c *policy.Compiled, of policy.Resource) (list []string) {
	more := 0
	for _, r := range c.Rules {
		switch {
		case r.Resource != of || r.Builtin() || !allows(r):
		case len(list) == maxGrants:
			more++
		default:
			list = append(list, explain.RuleText(r))
		}
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// allows reports whether a rule grants something.
func allows(r *policy.Rule) bool {
	switch {
	case r.FS != nil:
		return r.FS.Caps != 0
	case r.Net != nil:
		return r.Net.Allow
	}
	return r.Command != nil
}

// file asks about a path of the call's arguments, in each of its readings, from each of the folders that it could be relative to.
func (j *judge) file(written string, dirs []string, a action) {
	list, why := readings(written, j.Home)
	if why != "" {
		j.doubt(written, why)
		return
	}
	for _, p := range list {
		for _, dir := range dirs {
			j.path(j.within(dir, p), written, a)
			if strings.HasPrefix(p, "/") {
				break
			}
		}
	}
}

// within joins a path to a folder. Beneath the workspace the result is relative to it, as check has it: a relative path that leads out of the
// workspace has a reason of its own.
func (j *judge) within(dir, p string) string {
	full := absolute(dir, p)
	if rest, ok := strings.CutPrefix(full+"/", strings.TrimSuffix(j.Policy.Workspace, "/")+"/"); ok && !strings.HasPrefix(p, "/") {
		return cmp.Or(strings.TrimSuffix(rest, "/"), ".")
	}
	return full
}

// action is what a call does with a path.
type action uint8

const (
	anyAction action = iota // not known: one capability is enough
	reads
	lists
	creates // updates what exists
	updates
	deletes
	executes
)

var actions = map[action]struct {
	caps policy.Caps
	name string
}{
	reads: {policy.Read, "read"}, lists: {policy.Read, "list"}, updates: {policy.Update, "update"}, deletes: {policy.Delete, "delete"},
	executes: {policy.Execute, "execute"},
}

// path asks about a path that is absolute, or relative to the workspace.
func (j *judge) path(p, shown string, a action) {
	switch a {
	case anyAction:
		j.anyOf(p, shown)
		return
	case creates:
		if a = updates; !j.exists(p) {
			j.ask(target{explain.Question{Resource: policy.FS, Caps: policy.Create, Target: p}, shown, "create", true})
			return
		}
	}
	x := actions[a]
	j.ask(target{explain.Question{Resource: policy.FS, Caps: x.caps, Target: p}, shown, x.name, true})
}

// exists reports whether there is a file at a path, or whether that can't be found out.
func (j *judge) exists(p string) bool {
	resolved, err := j.Policy.ResolveTarget(j.Files, p, true)
	if err != nil {
		return true // which is denied in any case
	}
	_, err = j.Files.Lstat(resolved)
	return err == nil
}

// anyOf allows a path on which one capability at least is granted: on the file that a symlink leads to, whatever the tool does with it. The
// denial is that of read.
func (j *judge) anyOf(p, shown string) {
	if j.done() {
		return
	}
	t := target{explain.Question{Resource: policy.FS, Caps: policy.Read, Target: p}, shown, "unknown", true}
	first := j.check(t)
	for _, caps := range []policy.Caps{policy.Create, policy.Update, policy.Delete, policy.Execute} {
		if first.Decision == Allow || !strings.HasPrefix(first.Target, "/") {
			break
		}
		other := t
		other.q.Caps, other.q.Target = caps, first.Target
		if a := j.check(other); a.Decision == Allow {
			first = a
		}
	}
	j.take(t, first)
}

// address asks about a URL.
func (j *judge) address(written string, dirs []string, method string) {
	switch s := scheme(written); {
	case s == "data" || s == "about" || s == "blob":
		return
	case s == "file":
		j.file(written, dirs, reads)
		return
	case s == "" && !strings.HasPrefix(written, "//"):
		for _, s := range []string{"https://", "http://"} {
			j.net(s+strings.TrimSpace(written), written, method)
		}
		return
	case s == "":
		written = "https:" + written
	}
	j.net(strings.TrimSpace(written), written, method)
}

func (j *judge) net(url, shown, method string) {
	q := explain.Question{Resource: policy.Net, Target: url}
	if strings.HasPrefix(url, "http") {
		q.Method = method
	}
	j.ask(target{q, shown, "connect", false})
}

// maxDirs is how many working directories are judged at most.
const maxDirs = 4

// in returns the absolute folders that an object's paths are relative to.
func (j *judge) in(o *object) (dirs []string) {
	named := o.dirs()
	if len(named) == 0 { // one that an object next to it names could be meant
		named = j.args.cwds
	}
	for _, dir := range named {
		list, why := readings(dir, j.Home)
		if why != "" {
			j.doubt(dir, why)
			continue
		}
		for _, p := range list {
			dirs = append(dirs, absolute(j.dir, p))
		}
	}
	if len(dirs) == 0 {
		return []string{j.dir}
	}
	if len(dirs) > maxDirs {
		j.doubt(dirs[maxDirs], "is one of too many working directories")
		dirs = dirs[:maxDirs]
	}
	return dirs
}
