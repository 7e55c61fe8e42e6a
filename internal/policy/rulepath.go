package policy

import (
	"fmt"
	"path"
	"strings"
)

// formsHint says what a match may be.
const formsHint = `a match is [BASE/]**/LAST[/NAME…]: LAST is a name, "PREFIX*" or "*SUFFIX", the NAMEs are literal, and BASE is ` +
	`a literal path, "/" for the whole machine or left out for the workspace: "**/.env", "src/**/*.pem", "/**/.git/hooks"`

// pattern is a match taken apart.
type pattern struct {
	base  string // as written; "" for the workspace
	last  string
	names []string
}

func parsePattern(s string) (pattern, error) {
	parts := strings.Split(s, "/")
	at := -1
	for i, c := range parts {
		if c != "**" {
			continue
		}
		if at >= 0 {
			return pattern{}, fmt.Errorf(`%q has more than one "**"`, s)
		}
		at = i
	}
	if at < 0 {
		return pattern{}, fmt.Errorf(`%q has no "**" component`, s)
	}
	if at == len(parts)-1 {
		return pattern{}, fmt.Errorf(`%q has nothing after "**"`, s)
	}
	p := pattern{base: strings.Join(parts[:at], "/"), last: parts[at+1], names: parts[at+2:]}
	if at == 1 && parts[0] == "" {
		p.base = "/"
	}
	return p, p.check(s)
}

func (p pattern) check(s string) error {
	if strings.ContainsAny(p.base, "*?[]{}\\") {
		return fmt.Errorf("%q has a wildcard in its BASE", s)
	}
	body := p.last
	if b, ok := strings.CutSuffix(body, "*"); ok {
		body = b
	} else if b, ok := strings.CutPrefix(body, "*"); ok {
		body = b
	}
	for i, c := range append([]string{body}, p.names...) {
		switch {
		case c == "" && i == 0 && p.last != "":
			return fmt.Errorf(`%q matches every name: use path instead`, s)
		case c == "":
			return fmt.Errorf("%q has an empty component", s)
		case strings.ContainsAny(c, "*?[]{}\\"):
			return fmt.Errorf("%q has a wildcard where none may be, in %q", s, c)
		case c == "..", c == "." && (i > 0 || p.last == "."):
			return fmt.Errorf("%q has %q after \"**\"", s, c)
		}
	}
	return nil
}

// roots are the folders that written paths are relative to.
type roots struct {
	workspace string // canonical
	home      string
}

// absolute makes a written path absolute and clean, and says whether it was relative to the workspace.
func (r roots) absolute(written string) (abs string, relative bool, err error) {
	switch {
	case strings.IndexByte(written, 0) >= 0:
		return "", false, errNUL
	case written == "":
		return "", false, errEmpty
	case len(written) > MaxPath:
		return "", false, errTooLong
	case written == "~" || strings.HasPrefix(written, "~/"):
		if r.home == "" {
			return "", false, fmt.Errorf("the home folder that %q is relative to isn't known", written)
		}
		return path.Join(r.home, written[1:]), false, nil
	case strings.HasPrefix(written, "/"):
		return path.Clean(written), false, nil
	}
	abs = path.Join(r.workspace, written)
	if !within(abs, r.workspace) {
		return "", true, fmt.Errorf("%q leads out of the workspace %s (workspace_escape)", written, r.workspace)
	}
	return abs, true, nil
}

// rule resolves the path of a rule: a mistake that would make the rule mean something else is an error.
func (r roots) rule(res *resolver, written string) (resolved, error) {
	abs, relative, err := r.absolute(written)
	if err != nil {
		return resolved{}, err
	}
	got, err := res.resolve(abs, true)
	switch {
	case err != nil:
		return got, fmt.Errorf("%q can't be resolved: %w", written, err)
	case got.dangling:
		return got, fmt.Errorf("%q leads through a dangling symlink to %s", written, got.path)
	case relative && !within(got.path, r.workspace):
		return got, fmt.Errorf("%q leads out of the workspace through a symlink, to %s (workspace_escape)", written, got.path)
	case !resolvable(got.path):
		return got, fmt.Errorf("%q is %w", written, errTooLong)
	}
	return got, nil
}

// within says whether a clean absolute path is dir or lies beneath it.
func within(p, dir string) bool {
	if dir == "/" {
		return true
	}
	return len(p) >= len(dir) && p[:len(dir)] == dir && (len(p) == len(dir) || p[len(dir)] == '/')
}
