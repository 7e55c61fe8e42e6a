package sbpltest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Profile is a profile with its parameters' values.
type Profile struct {
	rules     []rule
	byName    map[string][]*rule // the rules with filters, by the name of the operation or family, in order
	unlimited map[string]*rule   // the last rule without filters, by the name
	allow     bool               // by default
}

// rule is a rule for one name and with at most one filter: several filters of one rule are the same as several rules.
type rule struct {
	op     string
	allow  bool
	filter *filter
}

// parser is the state of Parse.
type parser struct {
	params  map[string]string
	out     *Profile
	defined string // what the forms that are being read only apply to

	compiled map[string]*pattern
}

// Parse reads a profile.
func Parse(profile string, params map[string]string) (*Profile, error) {
	s := scanner{in: profile}
	all, err := s.expressions()
	if err != nil {
		return nil, err
	}
	p := parser{params: params, out: &Profile{byName: map[string][]*rule{}, unlimited: map[string]*rule{}}, compiled: map[string]*pattern{}}
	for _, op := range allowedAtFirst {
		p.out.unlimited[op] = &rule{op: op, allow: true}
	}
	if len(all) == 0 || !isVersion(&all[0]) {
		return nil, errors.New("a profile begins with (version 1)")
	}
	hasDefault := false
	for i := range all[1:] {
		e := &all[1+i]
		isDefault, err := p.form(e)
		if err != nil {
			s.at = e.at
			return nil, s.fail("%w", err)
		}
		if isDefault && hasDefault {
			return nil, errors.New("two rules for default")
		}
		hasDefault = hasDefault || isDefault
	}
	if !hasDefault {
		return nil, errors.New("no rule for default")
	}
	for i := range p.out.rules {
		p.out.index(&p.out.rules[i])
	}
	return p.out, p.out.undecided()
}

func isVersion(e *expr) bool {
	return e.head() == "version" && len(e.list) == 2 && e.list[1].text == "1"
}

// form reads a form at the top: a rule.
func (p *parser) form(e *expr) (isDefault bool, err error) {
	head := e.head()
	switch head {
	case "if", "when":
		return false, p.conditional(e)
	case "allow", "deny":
	default:
		return false, fmt.Errorf("unbound variable: %s", head)
	}
	var ops []string
	var filters []expr
	var on []filterKind
	for i, a := range e.args() {
		switch {
		case a.head() == "with":
			if err := p.modifier(&e.args()[i], head == "allow"); err != nil {
				return false, err
			}
		case a.kind == list:
			filters = append(filters, a)
		case a.kind != symbol || len(filters) > 0:
			return false, fmt.Errorf("illegal argument: %q", a.text)
		default:
			ops = append(ops, a.text)
		}
	}
	if slices.Equal(ops, []string{"default"}) && filters == nil {
		p.out.allow = head == "allow"
		return true, nil
	}
	for _, op := range ops {
		k, ok := known(op)
		if !ok || slices.Contains(newer, op) && op != p.defined {
			return false, fmt.Errorf("unbound variable: %s", op)
		}
		on = append(on, k)
	}
	if ops == nil {
		return false, errors.New("a rule without an operation")
	}
	return false, p.rule(ops, filters, on, head == "allow")
}

// conditional reads (when (defined? 'NAME) FORM…): the forms apply where the operation is known.
func (p *parser) conditional(e *expr) error {
	args := e.args()
	if len(args) < 2 || e.head() == "if" && len(args) != 2 || args[0].head() != "defined?" || len(args[0].list) != 2 || args[0].list[1].head() != "quote" {
		return fmt.Errorf("%s that isn't (%s (defined? 'NAME) RULE)", e.head(), e.head())
	}
	p.defined = args[0].list[1].list[1].text
	defer func() { p.defined = "" }()
	if _, ok := known(p.defined); !ok {
		return fmt.Errorf("unknown operation: %s", p.defined) // no release knows it: a rule that never applies is a mistake
	}
	for i := range args[1:] {
		if head := args[1+i].head(); head != "allow" && head != "deny" {
			return fmt.Errorf("%s in %s", head, e.head())
		}
		if isDefault, err := p.form(&args[1+i]); err != nil || isDefault {
			return cmp.Or(err, errors.New("a conditional rule for default"))
		}
	}
	return nil
}

// rule adds a rule for each operation and filter.
func (p *parser) rule(ops []string, filters []expr, on []filterKind, allow bool) error {
	conditions := []*filter{nil}
	if filters != nil {
		conditions = nil
	}
	for i := range filters {
		of, err := p.filters(&filters[i], on)
		if err != nil {
			return err
		}
		for j := range of {
			conditions = append(conditions, &of[j])
		}
	}
	for _, op := range ops {
		for _, f := range conditions {
			p.out.rules = append(p.out.rules, rule{op, allow, f})
		}
	}
	return nil
}

// modifier checks a (with …): what it may be doesn't change a decision. (with no-sandbox) would, for what is executed.
func (p *parser) modifier(e *expr, allow bool) error {
	args := e.args()
	if len(args) == 0 || args[0].kind != symbol {
		return errors.New("with needs a name")
	}
	switch name := args[0].text; {
	case (name == "no-log" || name == "no-report" || name == "report") && len(args) == 1:
		return nil
	case name == "message" && len(args) == 2 && !allow:
		_, err := p.text(&args[1])
		return err
	case name == "no-sandbox":
		return errors.New("(with no-sandbox) lets what is executed escape")
	default:
		return fmt.Errorf("unbound variable: %s of with, or it doesn't apply here", name)
	}
}

// text returns the value of a string, of a parameter, or of several of them together.
func (p *parser) text(e *expr) (string, error) {
	switch {
	case e.kind == text:
		return e.text, nil
	case e.head() == "param" && len(e.list) == 2 && e.list[1].kind == text:
		v, ok := p.params[e.list[1].text]
		if !ok {
			return "", fmt.Errorf("the parameter %q has no value", e.list[1].text)
		}
		return v, nil
	case e.head() == "string-append":
		var b strings.Builder
		for i := range e.args() {
			s, err := p.text(&e.args()[i])
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		}
		return b.String(), nil
	case e.kind == list:
		return "", fmt.Errorf("unbound variable: %s", e.head())
	}
	return "", fmt.Errorf("illegal argument: %q", e.text)
}

// index files a rule under its name.
func (p *Profile) index(r *rule) {
	if r.filter == nil {
		p.unlimited[r.op] = r
		return
	}
	p.byName[r.op] = append(p.byName[r.op], r)
}
