package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/envname"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

func (c *compiler) layerCommands(src *SourceLayer, ids *ruleIDs) *CommandTable {
	var rules []*Rule
	for i := range src.Commands {
		s := src.Commands[i]
		id := ids.named("commands", s.Name)
		before := len(c.errs)
		c.commandRule(&s, id)
		if len(c.errs) > before {
			continue
		}
		program, file, _ := c.res.FindProgram(c.src.Path, s.Name)
		if path.Base(program) == path.Base(s.Name) {
			file = ""
		}
		rules = append(rules, c.add(&Rule{
			ID: id, Authority: src.Authority, Resource: Commands, Position: s.Position,
			Command: &CompiledCommand{CommandRule: s, Program: program, File: file},
		}))
	}
	return newCommandTable(rules)
}

// IsProgramName reports whether name may be the name of a rule: a path must be absolute.
func IsProgramName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= fspath.MaxPath && !strings.ContainsRune(name, 0) &&
		(path.IsAbs(name) || !strings.Contains(name, "/"))
}

// commandRule checks a rule by itself, its self-tests included.
func (c *compiler) commandRule(s *CommandRule, id string) {
	fail := func(hint, format string, args ...any) {
		c.fail(s.Position, fmt.Errorf("%s: "+format, append([]any{id}, args...)...), hint)
	}
	if !IsProgramName(s.Name) {
		fail("it's a name that is looked up in PATH, or an absolute path", "%q isn't the name of a program", s.Name)
	}
	for _, a := range s.Args {
		if i := slices.Index(a, ArgsRest); i >= 0 && i != len(a)-1 {
			fail(`as the last element it lets any arguments follow`, `args %s has "**" before its end`, tomltext.Strings(a))
		}
	}
	for _, e := range s.Envs {
		if err := envname.Check(e); err != nil {
			fail(envname.Forms, "envs: %w", err)
		}
	}
	for _, t := range s.Match {
		c.selfTest(s, id, "match", t, true)
	}
	for _, t := range s.NotMatch {
		c.selfTest(s, id, "not_match", t, false)
	}
}

func (c *compiler) selfTest(s *CommandRule, id, key string, t SelfTest, want bool) {
	at, argv := t.Position, t.Argv
	if at.File == "" {
		at = s.Position
	}
	got := len(argv) > 0 && (argv[0] == s.Name || argv[0] == path.Base(s.Name))
	switch {
	case !got:
		c.fail(at, fmt.Errorf("%s: %s %s doesn't begin with %q", id, key, tomltext.Strings(argv), s.Name), "a self-test is a whole command line")
	case want && !s.Accepts(argv[1:]):
		c.fail(at, fmt.Errorf("%s: self-test failed: match %s isn't accepted by args %s", id, tomltext.Strings(argv), tomltext.Lists(s.Args)),
			"change args or the self-test")
	case !want && s.Accepts(argv[1:]):
		how := "any arguments are accepted"
		if !s.AnyArgs() {
			how = "it's accepted by args " + tomltext.Lists(s.Args)
		}
		c.fail(at, fmt.Errorf("%s: self-test failed: not_match %s: %s", id, tomltext.Strings(argv), how), "change args or the self-test")
	}
}
