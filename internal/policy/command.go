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
	order  []*Rule          // the last first, as far as one that lets the program run with any arguments
	called map[string]*Rule // who decides, by what the program is called; the others are the last of order's where it has no conditions
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

// any is the rule that lets the program run with any arguments, nil when there is none.
func (p *programRules) any() *Rule {
	if n := len(p.order); n > 0 && p.order[n-1].Command.AnyArgs() {
		return p.order[n-1]
	}
	return nil
}

// name says what the program may be called by which rule: what one has for its name is no other's with a version left out.
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

// Rules is every rule in order; the caller must not change it. A nil table has none.
func (t *CommandTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// Of is the rules for a program by its canonical path, the one that is asked first of all first; the caller must not change it.
func (t *CommandTable) Of(program string) []*Rule {
	if t == nil || t.by[program] == nil {
		return nil
	}
	return t.by[program].order
}

// Rule is the rule that decides about a program by its canonical path and what it's called: of those that it answers to the last, or
// the last of all. nil when there is none.
func (t *CommandTable) Rule(program, called string) *Rule {
	order := t.Of(program)
	if len(order) == 0 {
		return nil
	}
	of := t.by[program]
	return cmp.Or(of.called[base(called)], of.any(), order[0])
}

// Decides says whether there is anything that a rule of the table decides about: whatever its program is called, another one may.
func (t *CommandTable) Decides(r *Rule) bool {
	of := t.by[r.Command.Program]
	return of.any() == r || slices.ContainsFunc(r.Command.Called(), func(called string) bool { return of.called[called] == r })
}

// Calling is what a program is called, and its arguments. Without either it's called nothing, to which only a rule for any arguments answers.
func Calling(argv []string) (called string, args []string) {
	if len(argv) == 0 {
		return "", nil
	}
	return argv[0], argv[1:]
}

// base is what comes after the last slash, which may be nothing.
func base(called string) string { return called[strings.LastIndexByte(called, '/')+1:] }

// ArgsRest as the last element of an args list lets any arguments follow.
const ArgsRest = "**"

// AnyArgs says whether the rule lets its program run with any arguments. Then it may be called anything, too.
func (r *CommandRule) AnyArgs() bool {
	return !r.HasArgs || slices.ContainsFunc(r.Args, func(a []string) bool { return len(a) == 1 && a[0] == ArgsRest })
}

// Accepts says whether the rule lets its program run with these arguments, argv[1:].
func (r *CommandRule) Accepts(args []string) bool {
	return r.AnyArgs() || slices.ContainsFunc(r.Args, func(want []string) bool { return acceptsArgs(want, args) })
}

func acceptsArgs(want, args []string) bool {
	if n := len(want) - 1; n >= 0 && want[n] == ArgsRest {
		return len(args) >= n && slices.Equal(args[:n], want[:n])
	}
	return slices.Equal(want, args)
}

// MaxCalled is how many names a program may be called by under a rule (bpf/lib/image.h, MAX_CALLED).
const MaxCalled = 7

// Called is what the program of a rule with `args` may be called, by its argument 0 and by the file's name as it was executed: the
// rule's name, and the file's where it differs by the version that it ends with alone, each also without its last numbers, unless that is
// another rule's name for the same file. Many programs choose by their name what they do: git that is called git-push pushes, and one
// file is all of busybox's or coreutils' programs.
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

// ProgramVersions is a name, and the same with fewer and fewer numbers at its end: python3.11, python3, python.
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

// Answers says whether the rule's program may be called that: a path ends with the name.
func (c *CompiledCommand) Answers(called string) bool {
	return c.AnyArgs() || slices.Contains(c.Called(), base(called))
}

// Miscalled is why a program may not be called that, by the rule that decided; "" if it may.
func (c *Compiled) Miscalled(v Verdict, called string) string {
	if v.Rule < 0 || c.Rules[v.Rule].Command == nil {
		return ""
	}
	return c.Rules[v.Rule].Command.Miscalled(called)
}

// Miscalled says why a program may not be called that, "" if it may.
func (c *CompiledCommand) Miscalled(called string) string {
	if c.Answers(called) {
		return ""
	}
	return fmt.Sprintf("it's called %q, which may have it do something else: args are for what is called %s", called, strings.Join(c.Called(), " or "))
}

// CheckCommand decides on a program, by its canonical path, and its whole argv. That the program may be executed is a
// question for CheckFS besides.
func (c *Compiled) CheckCommand(program string, argv []string) Verdict {
	called, args := Calling(argv)
	v := c.restrict(Commands, func(l *Layer) (*Rule, bool) {
		r := l.Commands.Rule(program, called)
		return r, r != nil && r.Command.Answers(called) && r.Command.Accepts(args)
	}, CommandNotListed)
	if v.Reason == RuleDenies {
		v.Reason = ArgsNotListed
	}
	return v
}

// Sees says whether the program that the rule is for may see a variable, given that the session may.
func (r *CommandRule) Sees(name string) bool {
	if !r.HasEnvs {
		return true
	}
	return slices.ContainsFunc(r.Envs, func(e string) bool { return envname.Matches(e, name) })
}
