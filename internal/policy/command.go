package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/envname"
)

// CommandTable matches programs, what they're called and their arguments against the command rules of one layer.
type CommandTable struct {
	rules []*Rule
	by    map[string]*programRules // by canonical path
}

// programRules are the rules for one program.
type programRules struct {
	order  []*Rule          // the last first, down to one that allows any arguments
	called map[string]*Rule // the deciding rule by argument 0; for any other name the last rule of order decides, if it has no conditions
}

func newCommandTable(rules []*Rule) *CommandTable {
	t := &CommandTable{rules: rules, by: map[string]*programRules{}}
	for _, r := range slices.Backward(rules) {
		p := r.Command.Program
		if p == "" {
			continue
		}
		if t.by[p] == nil {
			t.by[p] = &programRules{}
		}
		if of := t.by[p]; of.any() == nil {
			of.order = append(of.order, r)
		}
	}
	for _, of := range t.by {
		of.name()
	}
	return t
}

// any returns the rule that allows any arguments, nil when there is none.
func (p *programRules) any() *Rule {
	if n := len(p.order); n > 0 && p.order[n-1].Command.AnyArgs() {
		return p.order[n-1]
	}
	return nil
}

// name assigns each accepted argument 0 to its rule. The name of one rule is never a version-less name of another.
func (p *programRules) name() {
	own := map[string]bool{}
	for _, r := range p.order {
		own[path.Base(r.Command.Name)] = true
	}
	p.called = map[string]*Rule{}
	for _, r := range p.order {
		c := r.Command
		if c.called == nil { // a rule is in several tables only where these are the same
			c.called = slices.DeleteFunc(c.Called(), func(name string) bool { return own[name] && name != path.Base(c.Name) })
		}
		for _, name := range c.called {
			if p.called[name] == nil && !c.AnyArgs() {
				p.called[name] = r
			}
		}
	}
}

// Rules returns every rule in order; the caller must not change it. A nil table has none.
func (t *CommandTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// Of returns the rules for a program by its canonical path, in the order in which they decide. The caller must not change them.
func (t *CommandTable) Of(program string) []*Rule {
	if t == nil || t.by[program] == nil {
		return nil
	}
	return t.by[program].order
}

// Rule returns the rule that decides on a program by its canonical path and argument 0: the last rule that accepts the name, or else the
// last of all; nil if the program has no rule.
func (t *CommandTable) Rule(program, called string) *Rule {
	order := t.Of(program)
	if len(order) == 0 {
		return nil
	}
	of := t.by[program]
	return cmp.Or(of.called[base(called)], of.any(), order[0])
}

// Decides reports whether a rule of the table decides for any argument 0: other rules may decide for all of them.
func (t *CommandTable) Decides(r *Rule) bool {
	of := t.by[r.Command.Program]
	return of.any() == r || slices.ContainsFunc(r.Command.Called(), func(called string) bool { return of.called[called] == r })
}

// SplitArgv returns argument 0, empty if argv is, and the arguments. Only a rule for any arguments accepts an empty argument 0.
func SplitArgv(argv []string) (called string, args []string) {
	if len(argv) == 0 {
		return "", nil
	}
	return argv[0], argv[1:]
}

// base returns the part after the last slash, which may be empty.
func base(called string) string { return called[strings.LastIndexByte(called, '/')+1:] }

// ArgsRest as the last element of an args list lets any arguments follow.
const ArgsRest = "**"

// AnyArgs reports whether the rule accepts any arguments. It then accepts any argument 0, too.
func (r *CommandRule) AnyArgs() bool {
	return !r.HasArgs || slices.ContainsFunc(r.Args, func(a []string) bool { return len(a) == 1 && a[0] == ArgsRest })
}

// Accepts reports whether the rule accepts these arguments, argv[1:].
func (r *CommandRule) Accepts(args []string) bool {
	return r.AnyArgs() || slices.ContainsFunc(r.Args, func(want []string) bool { return acceptsArgs(want, args) })
}

func acceptsArgs(want, args []string) bool {
	if n := len(want) - 1; n >= 0 && want[n] == ArgsRest {
		return len(args) >= n && slices.Equal(args[:n], want[:n])
	}
	return slices.Equal(want, args)
}

// MaxCalled is the number of names that a rule accepts at most as argument 0 (bpf/lib/image.h, MAX_CALLED).
const MaxCalled = 7

// Called returns the names that a rule with `args` accepts, as argument 0 and as the name of the executed file: the rule's name, and the
// file's name if they differ only by the version at the end, each also without its version, unless that is another rule's name for the
// same file. Many programs choose their function by name: git executed as git-push pushes, and busybox and coreutils are one file.
func (c *CompiledCommand) Called() []string {
	if c.called != nil {
		return c.called
	}
	names := ProgramVersions(path.Base(c.Name))
	if file := ProgramVersions(path.Base(c.Program)); file[len(file)-1] == names[len(names)-1] {
		for _, name := range file {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names[:min(len(names), MaxCalled)]
}

// ProgramVersions returns a name, and the name with fewer and fewer version numbers at its end: python3.11, python3, python.
func ProgramVersions(name string) []string {
	names := []string{name}
	for len(names) < MaxCalled {
		short := strings.TrimRight(name, "0123456789")
		if short != name {
			short = strings.TrimRight(short, ".-")
		}
		if short == "" || short == name {
			break
		}
		names, name = append(names, short), short
	}
	return names
}

// AcceptsName reports whether the rule accepts called, a name or a path that ends with one, as argument 0.
func (c *CompiledCommand) AcceptsName(called string) bool {
	return c.AnyArgs() || slices.Contains(c.Called(), base(called))
}

// NameMismatch returns why the rule that decided doesn't accept called as argument 0; "" if it does.
func (c *Compiled) NameMismatch(v Verdict, called string) string {
	if v.Rule < 0 || c.Rules[v.Rule].Command == nil {
		return ""
	}
	return c.Rules[v.Rule].Command.NameMismatch(called)
}

// NameMismatch returns why the rule doesn't accept called as argument 0; "" if it does.
func (c *CompiledCommand) NameMismatch(called string) string {
	if c.AcceptsName(called) {
		return ""
	}
	return fmt.Sprintf("it's called %q, which may have it do something else: args are for what is called %s", called, strings.Join(c.Called(), " or "))
}

// CheckCommand decides on a program, by its canonical path, and its whole argv. CheckFS decides
// whether the file may be executed.
func (c *Compiled) CheckCommand(program string, argv []string) Verdict {
	called, args := SplitArgv(argv)
	v := c.restrict(Commands, func(l *Layer) (*Rule, bool) {
		r := l.Commands.Rule(program, called)
		return r, r != nil && r.Command.AcceptsName(called) && r.Command.Accepts(args)
	}, CommandNotListed)
	if v.Reason == RuleDenies {
		v.Reason = ArgsNotListed
	}
	return v
}

// Sees reports whether the rule's program may see a variable that the session may see.
func (r *CommandRule) Sees(name string) bool {
	if !r.HasEnvs {
		return true
	}
	return slices.ContainsFunc(r.Envs, func(e string) bool { return envname.Matches(e, name) })
}
