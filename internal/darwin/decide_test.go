package darwin_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/darwin"
)

// expr is an expression of a profile: an atom, or a list.
type expr struct {
	atom string
	list []expr
}

// parse parses a profile. A string is an atom that begins with a quote.
func parse(t *testing.T, text string) []expr {
	t.Helper()
	stack := []expr{{}}
	token := regexp.MustCompile(`^(?:\s+|;[^\n]*|\(|\)|#?"(?:[^"\\]|\\.)*"|[^\s()";]+)`)
	for text != "" {
		word := token.FindString(text)
		if word == "" {
			t.Fatalf("no token at %.60q", text)
		}
		text = text[len(word):]
		top := len(stack) - 1
		switch {
		case word == "(":
			stack = append(stack, expr{})
		case word == ")":
			stack[top-1].list = append(stack[top-1].list, stack[top])
			stack = stack[:top]
		case strings.TrimSpace(word) != "" && word[0] != ';':
			stack[top].list = append(stack[top].list, expr{atom: strings.TrimPrefix(word, "#")})
		}
	}
	if len(stack) != 1 {
		t.Fatal("unbalanced parentheses")
	}
	return stack[0].list
}

// decider decides operations by a profile: the last rule for the operation that matches. It is as small as these tests allow.
type decider struct {
	t       *testing.T
	rules   []expr
	params  map[string]string
	regexes map[string]*regexp.Regexp
}

func newDecider(t *testing.T, p *darwin.Profile) *decider {
	d := &decider{t, parse(t, p.Text), map[string]string{}, map[string]*regexp.Regexp{}}
	for _, x := range p.Params {
		d.params[x.Name] = x.Value
	}
	return d
}

// target is what an operation is about: a path, a folder's if it ends with a slash, or an address such as "tcp localhost:80".
func (d *decider) allows(op, target string) bool {
	for _, r := range slices.Backward(d.rules) {
		if r.list[0].atom != "allow" && r.list[0].atom != "deny" {
			continue
		}
		ops, filters := 1, false
		for ; ops < len(r.list) && r.list[ops].list == nil; ops++ {
		}
		filters = ops < len(r.list)
		if !slices.ContainsFunc(r.list[1:ops], func(e expr) bool { return e.atom == op }) {
			continue
		}
		if !filters || slices.ContainsFunc(r.list[ops:], func(e expr) bool { return d.matches(e, target) }) {
			return r.list[0].atom == "allow"
		}
	}
	return false
}

func (d *decider) value(e expr) string {
	if e.list != nil {
		v, ok := d.params[strings.Trim(e.list[1].atom, `"`)]
		if e.list[0].atom != "param" || !ok {
			d.t.Fatalf("not a parameter: %v", e)
		}
		return v
	}
	return strings.Trim(e.atom, `"`)
}

func (d *decider) matches(e expr, target string) bool {
	rest := e.list[1:]
	path := strings.TrimSuffix(target, "/")
	if path == "" {
		path = "/"
	}
	is := func(e expr) bool { return d.matches(e, target) }
	switch e.list[0].atom {
	case "literal":
		return d.value(rest[0]) == path
	case "subpath":
		v := d.value(rest[0])
		return target[0] == '/' && (path == v || v == "/" || strings.HasPrefix(path, v+"/"))
	case "regex":
		re := d.regexes[d.value(rest[0])]
		if re == nil {
			re = regexp.MustCompile(d.value(rest[0]))
			d.regexes[d.value(rest[0])] = re
		}
		return re.MatchString(path)
	case "require-all":
		return !slices.ContainsFunc(rest, func(e expr) bool { return !is(e) })
	case "require-any":
		return slices.ContainsFunc(rest, is)
	case "vnode-type":
		return rest[0].atom == "DIRECTORY" && strings.HasSuffix(target, "/")
	case "remote", "local":
		protocol, at, ok := strings.Cut(target, " ")
		host, port, _ := strings.Cut(at, ":")
		h, p, _ := strings.Cut(d.value(rest[1]), ":")
		return ok && (rest[0].atom == "ip" || rest[0].atom == protocol) && (h == "*" || h == host) && (p == "*" || p == port)
	}
	return false
}
