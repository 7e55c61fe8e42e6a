package fspath

import (
	"fmt"
	"iter"
	"path"
	"strings"
)

// PatternForms describes the patterns that a match may be.
const PatternForms = `a match is [BASE/]**/LAST[/NAME…]: LAST is a name, "PREFIX*" or "*SUFFIX", the NAMEs are literal, and BASE is ` +
	`a literal path, "/" for the whole machine or left out for the workspace: "**/.env", "src/**/*.pem", "/**/.git/hooks"`

// Pattern is a parsed match.
type Pattern struct {
	Base  string // as written; "" for the workspace
	Last  string
	Names []string
}

func ParsePattern(s string) (Pattern, error) {
	at, n := 0, 0 // where "**" begins, and how often it's there
	for from, c := range parts(s) {
		if c == "**" {
			if n++; n == 1 {
				at = from
			}
		}
	}
	switch {
	case n > 1:
		return Pattern{}, fmt.Errorf(`%q has more than one "**"`, s)
	case n == 0:
		return Pattern{}, fmt.Errorf(`%q has no "**" component`, s)
	case at+len("**") == len(s):
		return Pattern{}, fmt.Errorf(`%q has nothing after "**"`, s)
	}
	var p Pattern
	switch at {
	case 0:
	case 1:
		p.Base = "/"
	default:
		p.Base = s[:at-1]
	}
	var names string
	var more bool
	if p.Last, names, more = strings.Cut(s[at+len("**/"):], "/"); more {
		p.Names = strings.Split(names, "/")
	}
	return p, p.check(s)
}

// parts returns the components of a path as written, each with its offset.
func parts(s string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		at := 0
		for c := range strings.SplitSeq(s, "/") {
			if !yield(at, c) {
				return
			}
			at += len(c) + 1
		}
	}
}

func (p Pattern) check(s string) error {
	if strings.ContainsAny(p.Base, Wildcards) {
		return fmt.Errorf("%q has a wildcard in its BASE", s)
	}
	body := p.Last
	if b, ok := strings.CutSuffix(body, "*"); ok {
		body = b
	} else if b, ok := strings.CutPrefix(body, "*"); ok {
		body = b
	}
	if body == "" && p.Last != "" {
		return fmt.Errorf(`%q matches every name: use path instead`, s)
	}
	if err := checkName(s, body, p.Last); err != nil {
		return err
	}
	for _, c := range p.Names {
		if err := checkName(s, c, c); err != nil {
			return err
		}
	}
	return nil
}

const Wildcards = "*?[]{}\\"

// checkName checks a component after "**"; literal is the component without a wildcard at its end or beginning.
func checkName(s, literal, written string) error {
	switch {
	case literal == "":
		return fmt.Errorf("%q has an empty component", s)
	case strings.ContainsAny(literal, Wildcards):
		return fmt.Errorf("%q has a wildcard where none may be, in %q", s, literal)
	case literal == "..", written == ".":
		return fmt.Errorf("%q has %q after \"**\"", s, literal)
	}
	return nil
}

// Roots are the folders that written paths are relative to.
type Roots struct {
	Workspace string // canonical
	Home      string
	RealHome  string // canonical; "" where it can't be resolved
}

// absolute makes a written path absolute and clean, and reports whether it was relative to the workspace.
func (r Roots) absolute(written string) (abs string, relative bool, err error) {
	switch {
	case strings.IndexByte(written, 0) >= 0:
		return "", false, ErrNUL
	case written == "":
		return "", false, ErrEmpty
	case len(written) > MaxPath:
		return "", false, ErrTooLong
	case written == "~" || strings.HasPrefix(written, "~/"):
		if r.Home == "" {
			return "", false, fmt.Errorf("the home folder that %q is relative to isn't known", written)
		}
		return path.Join(r.Home, written[1:]), false, nil
	case strings.HasPrefix(written, "/"):
		return path.Clean(written), false, nil
	}
	abs = path.Join(r.Workspace, written)
	if !Within(abs, r.Workspace) {
		return "", true, fmt.Errorf("%q leads out of the workspace %s (%w)", written, r.Workspace, ErrEscape)
	}
	return abs, true, nil
}

// Unlinked returns the path of a NoLink rule if it contains no symlink.
func (r Roots) Unlinked(written string) string {
	if rest, ok := strings.CutPrefix(written, "~/"); ok {
		return path.Join(r.RealHome, rest)
	}
	return path.Clean(written)
}

// Resolve resolves the path of a rule: a mistake that would make the rule mean something else is an error. When follow is false the rule is about a
// symlink at the path itself.
func (r Roots) Resolve(res *Resolver, written string, follow bool) (Resolved, error) {
	abs, relative, err := r.absolute(written)
	if err != nil {
		return Resolved{}, err
	}
	got, err := res.Resolve(abs, follow)
	switch {
	case err != nil:
		return got, fmt.Errorf("%q can't be resolved: %w", written, err)
	case got.dangling:
		return got, fmt.Errorf("%q leads through a dangling symlink to %s", written, got.Path)
	case relative && !Within(got.Path, r.Workspace):
		return got, fmt.Errorf("%q leads out of the workspace through a symlink, to %s (%w)", written, got.Path, ErrEscape)
	case !IsCanonical(got.Path):
		return got, fmt.Errorf("%q is %w", written, ErrTooLong)
	}
	return got, nil
}
