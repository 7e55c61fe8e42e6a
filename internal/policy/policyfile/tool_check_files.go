package policyfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/schema"
)

// authorCheck is what the files of one author say together, as far as it has to fit together.
type authorCheck struct {
	stages map[string]*stageLists
	local  map[string]*localTool
	tables map[string]policy.Position // by the name in the normal form
	claims []claim                    // of aliases
}

// stageLists are where a stage has its lists, and whether it names a profile.
type stageLists struct {
	allow, also policy.Position
	profile     bool
}

// localTool is what a table has of a local tool.
type localTool struct {
	command []Text
	schema  *ArgumentSchema
}

// claim is an alias of a tool.
type claim struct {
	alias Text
	tool  string
}

func newAuthorCheck() *authorCheck {
	return &authorCheck{stages: map[string]*stageLists{}, local: map[string]*localTool{}, tables: map[string]policy.Position{}}
}

func (a *authorCheck) addStage(s *Stage, id string) {
	seen := a.stages[id]
	if seen == nil {
		seen = &stageLists{}
		a.stages[id] = seen
	}
	set(s.Allow != nil, &seen.allow, s.Position.At(s.Keys["allow"]))
	set(s.AlsoAllow.Given, &seen.also, s.Position.At(s.Keys["also_allow"]))
	if s.AlsoAllow.Strategy == Replace && len(s.AlsoAllow.Items) == 0 {
		seen.also = policy.Position{} // takes that of an earlier file away
	}
	seen.profile = seen.profile || s.Profile.S != ""
}

func (a *authorCheck) add(pattern string, t *Tool) {
	key := tableKey(pattern)
	if a.local[key] == nil {
		a.local[key] = &localTool{}
	}
	set(t.Command != nil, &a.local[key].command, t.Command)
	set(t.Schema != nil, &a.local[key].schema, t.Schema)
	a.tables[key] = t.Position
	for _, alias := range t.Aliases.Items {
		a.claims = append(a.claims, claim{alias, pattern})
	}
}

// together checks what may be in several files of the author.
func (c *toolCheck) together() {
	for _, id := range slices.Sorted(maps.Keys(c.author.stages)) {
		s := c.author.stages[id]
		switch none := (policy.Position{}); {
		case s.also == none:
		case s.allow != none && s.allow.File == s.also.File:
			c.fail(s.also, "add the tools to allow", "also_allow adds to a profile's list, and this stage has its own: allow")
		case s.allow != none:
			c.fail(s.also, `add the tools to allow, or write also_allow = { strategy = "replace", value = [] } in the later file`,
				"also_allow adds to a profile's list, and this stage has its own: allow (%s)", s.allow)
		case !s.profile:
			c.fail(s.also, `add profile = "NAME"`, "also_allow adds to a profile's list, and this stage names no profile")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.author.local)) {
		c.arguments(c.author.local[key])
	}
	c.aliases()
}

// arguments checks that the schema of a local tool has what its command takes.
func (c *toolCheck) arguments(t *localTool) {
	if t.schema == nil || t.schema.JSON == nil {
		return
	}
	if t.command == nil {
		c.fail(t.schema.Position, `add command = ["program", "{argument}"], or remove it`, "schema is for the arguments of a local tool, and this tool has no command")
	}
	for _, e := range t.command {
		if name, _ := schema.Placeholder(e.S); name != "" && !slices.Contains(t.schema.Names, name) {
			c.fail(e.Position, nearest.Hint(name, t.schema.Names, "it has "), "the schema has no property %s", tomltree.Quote(name))
		}
	}
}

// aliases checks that each alias stands for one tool.
func (c *toolCheck) aliases() {
	first := map[string]claim{}
	for _, x := range c.author.claims {
		alias, tool := toolset.Normal(x.alias.S), toolset.Normal(x.tool)
		at, table := c.author.tables[alias]
		other, claimed := first[alias]
		switch {
		case table && alias != tool:
			c.fail(x.alias.Position, "", "alias %s has a table of its own (%s)", tomltree.Quote(x.alias.S), at)
		case claimed && toolset.Normal(other.tool) != tool:
			c.fail(x.alias.Position, "", "alias %s is also one of %s (%s)", tomltree.Quote(x.alias.S), tomltree.Quote(other.tool), other.alias.Position)
		case !claimed:
			first[alias] = x
		}
	}
}

// spellings rejects two tables of a file for one tool, of which either could count.
func (c *toolCheck) spellings(tables map[string]*Tool) {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		key := tableKey(name)
		if other, ok := seen[key]; ok {
			c.fail(tables[name].Position, "make one table of both", "%s and %s (%s) are one tool: names are compared in lower case, with _ for -",
				tomltree.Quote(name), tomltree.Quote(other), tables[other].Position)
		}
		seen[key] = name
	}
}

// roles checks names of arguments: each has one role, and they're compared in lower case.
func (c *toolCheck) roles(paths []Text, roles map[string]Role) {
	seen := map[string]policy.Position{}
	add := func(name string, at policy.Position) {
		name = strings.ToLower(name)
		if other, ok := seen[name]; ok {
			c.fail(at, "remove one of them", "argument %s is given twice (%s)", tomltree.Quote(name), other)
		}
		if seen[name] = at; strings.Contains(name, "*") {
			c.fail(at, "write each name", "%s is a pattern, and names of arguments are compared whole", tomltree.Quote(name))
		}
	}
	for _, p := range paths {
		if p.S != "" { // else it was reported
			add(p.S, p.Position)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		add(name, roles[name].Position)
	}
}
