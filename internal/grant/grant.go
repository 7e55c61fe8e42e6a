// Package grant adds a rule to the text of a policy that allows a denial, and nothing else.
//
// It asks the current policy about the denial, and appends the rule that the policy suggests, or merges it into a program's
// arguments. Then it compiles the result and asks again. It returns no text that doesn't load, that doesn't allow the denied
// access, or that removes another permission.
package grant

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/tomlformat"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// Denial is a denial with the fields of its event.
type Denial struct {
	Resource, Capability, Target string
	Reason                       string            // a policy.Reason
	Asked                        string            // for a command: its argv
	Suggest                      string            // the event's suggestion, or ""
	Mechanism                    string            // that denied it
	Extra                        map[string]string // "method", "advice", "why"
}

// Question returns the question whose answer is the denial. ok is false if there is none: limits, system calls, renames.
func (d *Denial) Question() (q explain.Question, ok bool) {
	resource := d.Resource
	switch policy.Reason(d.Reason) {
	case policy.CommandNotListed: // Landlock reports it as a denied file
		resource = policy.Commands.String()
	case policy.NoGain, policy.PathUnresolved, policy.HostMismatch, policy.DNSDenied, policy.SyscallDenied, policy.Limit, policy.EngineError:
		return q, false
	}
	switch resource {
	case policy.FS.String():
		q = explain.Question{Resource: policy.FS, Target: d.Target, Symlink: strings.HasSuffix(d.Mechanism, "readlink")}
		for name := range strings.SplitSeq(d.Capability, "+") {
			c, known := policy.ParseCap(name)
			if !known {
				return q, false
			}
			q.Caps |= c
		}
		return q, strings.HasPrefix(d.Target, "/")
	case policy.Net.String():
		q = explain.Question{Resource: policy.Net, Target: d.Target, Listen: d.Capability == "listen", Method: d.Extra["method"]}
		if strings.Contains(d.Suggest, "\nscheme = \"http\"\n") && !strings.HasPrefix(d.Target, "http") {
			q.Scheme = "http" // the target is a proxy: its address alone would grant every host behind it
		}
		if to := d.Extra["to"]; d.Reason == string(policy.PrivateAddress) && to != "" { // the name is granted, and the address needs a rule
			scheme, _, _ := strings.Cut(d.Target, "://")
			q.Target = scheme + "://" + to
		}
		_, err := q.NetTarget()
		return q, err == nil && (q.Listen || d.Capability == "connect") && !strings.HasPrefix(d.Target, "dns:")
	case policy.Env.String():
		return explain.Question{Resource: policy.Env, Target: d.Target}, true
	case policy.Commands.String():
		q = explain.Question{Resource: policy.Commands, Target: d.Target}
		if d.Reason == string(policy.ArgsNotListed) {
			q.Argv = d.argv()
			return q, q.Argv != nil
		}
		return q, strings.HasPrefix(d.Target, "/")
	}
	return q, false
}

// argv returns the program's arguments, or nil if they are ambiguous: an event has them on one line, and separated only in its
// suggestion.
func (d *Denial) argv() []string {
	argv := strings.Split(d.Asked, " ")
	quoted := make([]string, len(argv)-1)
	for i, arg := range argv[1:] {
		quoted[i] = tomltext.Quote(arg)
	}
	if d.Asked == "" || !strings.Contains(d.Suggest, "["+strings.Join(quoted, ", ")+"]]") {
		return nil
	}
	return argv
}

// answer asks a policy. If only the path of a program is known, it asks about any arguments.
func answer(c *policy.Compiled, sys fspath.FileSystem, q explain.Question) explain.Answer {
	if q.Resource == policy.Commands && len(q.Argv) == 0 {
		return explain.Describe(c, c.CheckCommand(q.Target, nil), q, q.Target)
	}
	_, a := explain.Ask(c, sys, q)
	return a
}

// Policy is the text of a policy, with a function to compile it.
type Policy struct {
	Text   []byte
	Load   func(text []byte) (*policy.Compiled, error)
	System fspath.FileSystem
}

// Rejection is the reason why a grant isn't added, and what to do by hand.
type Rejection struct {
	Reason string
	Hint   string // TOML, or ""
}

func (r *Rejection) Error() string { return r.Reason }

// Add returns the text with a rule that allows a denial, mostly at its end, or the same text if the policy already allows it. With
// force, it may grant a secret or a protected file. A *Rejection is about this denial, any other error about the policy.
func (p *Policy) Add(d *Denial, force bool) ([]byte, error) {
	q, ok := d.Question()
	if !ok {
		return nil, p.manual(d)
	}
	known := ""
	if d.Suggest == "" { // the run had information that the policy doesn't have
		known = cmp.Or(d.Extra["advice"], d.Extra["anyway"])
	}
	return p.add(q, known, force)
}

// AddFor is Add for what a question is about, which needn't have been denied yet.
func (p *Policy) AddFor(q explain.Question) ([]byte, error) { return p.add(q, "", false) }

// add is Add with the question, and with why a rule that would be suggested doesn't allow it, if that's known.
func (p *Policy) add(q explain.Question, known string, force bool) ([]byte, error) {
	before, err := p.Load(p.Text)
	if err != nil {
		return nil, err
	}
	a := answer(before, p.System, q)
	if a.Decision == "allow" {
		return p.Text, nil
	}
	q.Anyway = force
	more := answer(before, p.System, q)
	if a.Suggest != "" && known != "" {
		return nil, &Rejection{Reason: known}
	}
	if merged, ok := p.merged(q, more); ok {
		return p.verify(before, merged, q, "") // a separate table could bypass the program's self-tests
	}
	if more.Suggest == "" {
		return nil, noSuggestion(a)
	}
	return p.verify(before, appendTable(p.Text, more.Suggest), q, more.Suggest)
}

// merged returns the text with more arguments for a program that it lists. ok is false if that isn't sufficient.
func (p *Policy) merged(q explain.Question, a explain.Answer) (text []byte, ok bool) {
	if a.Reason != policy.ArgsNotListed || a.Authority != policy.Session || a.Rule == nil || slices.Contains(q.Argv, policy.ArgsRest) {
		return nil, false
	}
	return tomlformat.AppendArgs(p.Text, a.Rule.Command.Name, q.Argv[1:])
}

// verify returns the text if it allows the question and removes no permission.
func (p *Policy) verify(before *policy.Compiled, text []byte, q explain.Question, hint string) ([]byte, error) {
	now, err := p.Load(text)
	if err != nil {
		return nil, &Rejection{"the policy with this grant doesn't load: " + firstLine(err), hint}
	}
	if a := answer(now, p.System, q); a.Decision != "allow" {
		return nil, &Rejection{fmt.Sprintf("the access would still be denied (%s)", a.Reason), hint}
	}
	if lost := firstNarrowed(before, now); lost != nil {
		return nil, &Rejection{fmt.Sprintf("the first rule for %s would remove what the built-in default policy grants: %s of %s; first "+
			"write the rules to keep, for example with 'toolguard policy init'", lost.Resource, lost.Old, lost.Target), hint}
	}
	return text, nil
}

// manual returns the rejection of a denial that no policy can be asked about.
func (p *Policy) manual(d *Denial) error {
	if d.Suggest != "" {
		return &Rejection{"whether this rule allows it can't be tested: add it by hand", d.Suggest}
	}
	why := "no policy can allow it"
	if d.Reason == string(policy.ArgsNotListed) {
		why = "not all of its arguments are known: write a rule for it by hand"
	}
	if w := d.Extra["advice"]; w != "" {
		why = w
	} else if w := d.Extra["why"]; w != "" {
		why += ": " + w
	}
	return &Rejection{Reason: why}
}

func noSuggestion(a explain.Answer) error {
	switch {
	case a.Advice != "":
		return &Rejection{Reason: a.Advice}
	case a.Note != "":
		return &Rejection{Reason: "no rule is suggested for it: " + a.Note}
	}
	return &Rejection{Reason: fmt.Sprintf("no rule is suggested for it (%s)", a.Reason)}
}

// appendTable appends a table after an empty line.
func appendTable(text []byte, table string) []byte {
	out := bytes.TrimRight(slices.Clone(text), "\n")
	if len(out) > 0 {
		out = append(out, "\n\n"...)
	}
	return append(out, strings.TrimSpace(table)+"\n"...)
}

// firstNarrowed returns a permission that the new policy lacks, or nil.
func firstNarrowed(before, after *policy.Compiled) *explain.Change {
	for _, c := range explain.Diff(before, after) {
		if c.Narrowed {
			return &c
		}
	}
	return nil
}

func firstLine(err error) string {
	var mistakes policy.Errors
	if errors.As(err, &mistakes) && len(mistakes) > 0 {
		return mistakes[0].Error()
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
