package toolset

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Target returns a tool as the layer's patterns see it. name is its full name (mcp__SERVER__TOOL), and bare the name that an MCP server
// gave it, else "".
func (l *Layer) Target(name, bare string) *Target {
	t, _, _ := l.tables(name, bare)
	return t
}

// tables returns the tables that are about a tool, the general ones first, and those that match its bare name only.
func (l *Layer) tables(name, bare string) (target *Target, full, wide []*Tool) {
	given := Normal(name)
	target = &Target{Name: l.Canonical(given), Given: given, Bare: Normal(bare)}
	for _, t := range l.Tools {
		switch {
		case t.Plugin == "":
		case l.matches(t, target, false):
			target.Plugin = t.Plugin
		case l.matches(t, target, true):
			target.BarePlugin = t.Plugin
		}
	}
	for _, t := range l.Tools { // those for the groups of plugins need to know the plugin
		switch {
		case l.matches(t, target, false):
			full = append(full, t)
		case l.matches(t, target, true):
			wide = append(wide, t)
		}
	}
	return target, full, wide
}

// Patterns returns the patterns of the tables that are about a tool, by the name that it was given or by the one of which that is an alias.
func (l *Layer) Patterns(name string) (patterns []string) {
	_, full, wide := l.tables(name, "")
	for _, t := range append(full, wide...) {
		patterns = append(patterns, t.Pattern.Text)
	}
	return patterns
}

// matches is Matcher.Find for a table, without compiling what is only a name.
func (l *Layer) matches(t *Tool, target *Target, wide bool) bool {
	p := t.Pattern.Text
	if strings.HasPrefix(p, GroupPrefix) {
		return l.Matcher([]Entry{t.Pattern}).Find(target, wide) != nil
	}
	if p = Normal(p); !strings.Contains(p, "*") {
		p = l.Canonical(p)
	}
	if !wide {
		return Glob(p, target.Name)
	}
	return Glob(p, target.Name) || Glob(p, target.Given) || target.Bare != "" && Glob(p, target.Bare)
}

// said is what one author says about one tool.
type said struct {
	layer   *Layer
	target  *Target
	keys    map[string]*Tool // by key: the table that decides
	builtin map[string]*Tool // the same of the built-in tables, which no author has set
	bare    []*Tool          // tables that match the bare name only, and therefore only restrict
	roles   map[string]Role
}

func (l *Layer) about(name, bare string) *said {
	s := &said{layer: l, keys: map[string]*Tool{}, builtin: map[string]*Tool{}}
	var full []*Tool
	s.target, full, s.bare = l.tables(name, bare)
	for _, t := range full {
		for key, rule := range t.Keys {
			if rule.Builtin() {
				s.builtin[key] = t
			} else {
				s.keys[key] = t
			}
		}
	}
	s.roles = map[string]Role{}
	for _, builtin := range []bool{true, false} {
		s.addRoles(l.Gate.Roles, builtin)
		for _, t := range full {
			s.addRoles(t.Roles, builtin)
		}
	}
	return s
}

func (s *said) addRoles(roles map[string]Role, builtin bool) {
	for name, role := range roles {
		if role.Rule.Builtin() == builtin {
			s.roles[name] = role
		}
	}
}

// Settings returns what the authors say about a tool. name is its full name (mcp__SERVER__TOOL), and bare the name that an MCP server gave
// it, else "".
func (s *Set) Settings(name, bare string) *Settings {
	out := &Settings{Name: Normal(name), Parameters: map[string]string{}, Rules: map[string]Rule{}}
	r := resolution{Settings: out}
	for _, l := range s.Layers {
		r.authors = append(r.authors, l.about(name, bare))
	}
	if len(r.authors) > 0 {
		out.Name = r.authors[0].target.Name // calls are counted by it: a session's alias must not make another tool one of the host's
	}
	out.Source, out.Kind = r.first("source", func(t *Tool) string { return t.Source }), r.kind()
	if out.Source == "" && bare != "" {
		out.Source = "mcp"
	}
	out.Source = cmp.Or(out.Source, "local")
	r.exclude()
	risk := func(t *Tool) string { return t.Risk }
	out.Risk = r.strictest("risk", Risks, risk)
	out.Risk = r.stricter("risk", Risks, cmp.Or(out.Risk, r.builtin("risk", risk), riskOf(out.Kind)), risk)
	ask := func(t *Tool) string { return t.Ask }
	out.Ask = r.stricter("ask", asks, cmp.Or(r.strictest("ask", asks, ask), r.builtin("ask", ask)), ask)
	for _, a := range r.authors {
		own := resolution{&Settings{Rules: map[string]Rule{}}, []*said{a}}
		out.asks = append(out.asks, own.stricter("ask", asks, own.strictest("ask", asks, ask), ask))
	}
	out.OwnerOnly = r.any("owner_only", func(t *Tool) *bool { return t.OwnerOnly })
	out.Forbidden = r.any("constraints.forbidden", func(t *Tool) *bool { return t.Forbidden })
	r.constraints()
	r.local()
	r.parameters()
	return out
}

// resolution is one Settings under way.
type resolution struct {
	*Settings
	authors []*said // the host first
}

// first is the value of the first author that sets a key, the host before the session, else the built-in one.
func (r *resolution) first(key string, value func(*Tool) string) string {
	for _, a := range r.authors {
		if t := a.keys[key]; t != nil {
			r.Rules[key] = t.ID(key)
			return value(t)
		}
	}
	return r.builtin(key, value)
}

// builtin is the value of the built-in tables.
func (r *resolution) builtin(key string, value func(*Tool) string) string {
	for _, a := range r.authors {
		if t := a.builtin[key]; t != nil {
			if _, ok := r.Rules[key]; !ok {
				r.Rules[key] = t.ID(key)
			}
			return value(t)
		}
	}
	return ""
}

// strictest is the strictest of the values that authors set; "" for none.
func (r *resolution) strictest(key string, order []string, value func(*Tool) string) (best string) {
	for _, a := range r.authors {
		if t := a.keys[key]; t != nil && slices.Index(order, value(t)) > slices.Index(order, best) {
			best, r.Rules[key] = value(t), t.ID(key)
		}
	}
	return best
}

// stricter is best, or a stricter value of a table that matches the tool's bare name only.
func (r *resolution) stricter(key string, order []string, best string, value func(*Tool) string) string {
	for _, a := range r.authors {
		for _, t := range a.bare {
			if slices.Index(order, value(t)) > slices.Index(order, best) {
				best, r.Rules[key] = value(t), t.ID(key)
			}
		}
	}
	return best
}

// any reports whether an author sets a mark.
func (r *resolution) any(key string, value func(*Tool) *bool) bool {
	for _, a := range r.authors {
		for _, t := range append(slices.Clip(a.bare), cmp.Or(a.keys[key], a.builtin[key])) {
			if t != nil && value(t) != nil && *value(t) {
				r.Rules[key] = t.ID(key)
				return true
			}
		}
	}
	return false
}

// kind is that of the first author whose tables, the built-in ones, or tool_patterns give one. A session therefore can't replace a kind that
// the built-in tables give where there are files of the host.
func (r *resolution) kind() string {
	for _, a := range r.authors {
		if t := cmp.Or(a.keys["kind"], a.builtin["kind"]); t != nil {
			r.Rules["kind"] = t.ID("kind")
			return t.Kind
		}
		if e := a.layer.Matcher(a.layer.Gate.ToolPatterns).Find(a.target, false); e != nil {
			r.Rules["kind"] = e.Rule
			return "modify"
		}
	}
	return ""
}

// exclude applies exclude of [gate], which compares the full name.
func (r *resolution) exclude() {
	excluded := 0
	for _, a := range r.authors {
		if e := a.layer.Matcher(a.layer.Gate.Exclude).Find(a.target, false); e != nil {
			excluded++
			r.Rules["exclude"] = e.Rule
		}
	}
	if r.Exclude = excluded > 0 && excluded == len(r.authors); !r.Exclude {
		delete(r.Rules, "exclude")
	}
}

// constraints takes the smallest max_invocations, and only_after of all.
func (r *resolution) constraints() {
	const invocations, after = "constraints.max_invocations", "constraints.only_after"
	for _, a := range r.authors {
		for _, t := range append(slices.Clip(a.bare), a.keys[invocations]) {
			if t != nil && t.MaxInvocations > 0 && (r.MaxInvocations == 0 || t.MaxInvocations < r.MaxInvocations) {
				r.MaxInvocations, r.Rules[invocations] = t.MaxInvocations, t.ID(invocations)
			}
		}
		for _, t := range append(slices.Clip(a.bare), a.keys[after]) {
			if t != nil && len(t.OnlyAfter) > 0 {
				r.Rules[after] = t.ID(after)
				for _, e := range t.OnlyAfter {
					r.OnlyAfter = append(r.OnlyAfter, Predecessor{e, a.layer})
				}
			}
		}
	}
}

// local takes what makes a local tool from one author, that of the command: another one's schema could accept other arguments.
func (r *resolution) local() {
	r.Description = r.first("description", func(t *Tool) string { return t.Description })
	for _, a := range r.authors {
		t := a.keys["command"]
		if t == nil {
			continue
		}
		r.Command, r.Rules["command"] = t.Command, t.ID("command")
		if t := a.keys["schema"]; t != nil {
			r.Schema, r.Rules["schema"] = t.Schema, t.ID("schema")
		}
		return
	}
}

// parameters are the roles of arguments: those that the host's files or the built-in tables give, before those of the session. "text", which
// is no role to judge, counts if each author sets it.
func (r *resolution) parameters() {
	names := map[string]bool{}
	for _, a := range r.authors {
		for name := range a.roles {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if role := r.role(name); role.Name != "" {
			r.Parameters[name], r.Rules["parameters."+name] = role.Name, role.Rule
		}
	}
}

func (r *resolution) role(name string) (out Role) {
	texts := 0
	for _, a := range r.authors {
		role := a.roles[name]
		switch builtin := role.Rule.Builtin(); {
		case role.Name == "" || builtin && role.Name == "argv" && r.Kind != "execute":
		case role.Name != "text":
			return role
		case builtin:
			out = role
		default:
			if texts++; texts == len(r.authors) {
				return role
			}
		}
	}
	return out
}
