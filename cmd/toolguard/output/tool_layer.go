package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// toolRow is one key of the tool layer, with where it's from. A list that several files add to has a row for each.
type toolRow struct {
	rule  toolset.Rule
	value []string
}

// toolSection is what one author's files say about one subject.
type toolSection struct {
	name string
	rows []toolRow
}

// toolSections are the sections of one author's layer.
func toolSections(l *toolset.Layer) []toolSection {
	groups, profiles, stages, tools := &toolSection{name: "groups"}, &toolSection{name: "profiles"}, &toolSection{name: "stages"}, &toolSection{name: "tools"}
	for _, name := range slices.Sorted(maps.Keys(l.Groups)) {
		groups.list(l.Groups[name])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Profiles)) {
		profiles.stage(l.Profiles[name])
	}
	for _, s := range []*toolset.Stage{l.Global, l.Sandbox, l.Subagent} {
		stages.stage(s)
	}
	for _, n := range []*toolset.Named{&l.Profile, &l.Provider, &l.Agent, &l.Group} {
		stages.stage(n.All)
		for _, name := range slices.Sorted(maps.Keys(n.Names)) {
			stages.stage(n.Names[name])
		}
	}
	for _, t := range l.Tools {
		tools.tool(t)
	}
	gate, approvals, hooks := &toolSection{name: "gate"}, &toolSection{name: "approvals"}, &toolSection{name: "hooks"}
	gate.gate(&l.Gate)
	approvals.approvals(&l.Approvals)
	for _, h := range slices.Concat(l.Before, l.After) {
		hooks.hook(h)
	}
	return []toolSection{*groups, *profiles, *stages, *tools, *gate, *approvals, *hooks}
}

func (s *toolSection) add(rule toolset.Rule, value ...string) {
	s.rows = append(s.rows, toolRow{rule, value})
}

// list adds the entries of a list, those of one file in a row.
func (s *toolSection) list(entries []toolset.Entry) {
	for i, e := range entries {
		if i > 0 && e.Rule.ID == entries[i-1].Rule.ID && e.Rule.At.File == entries[i-1].Rule.At.File {
			last := &s.rows[len(s.rows)-1]
			last.value = append(last.value, e.Text)
		} else {
			s.add(e.Rule, e.Text)
		}
	}
}

func (s *toolSection) stage(x *toolset.Stage) {
	if x == nil {
		return
	}
	before := len(s.rows)
	key := func(name, value string) {
		s.add(toolset.Rule{ID: x.Rule.ID + "." + name, At: x.Rule.At}, value)
	}
	if x.Profile.Text != "" {
		s.list([]toolset.Entry{x.Profile})
	}
	if x.Filters && len(x.Allow) == 0 {
		key("allow", "nothing")
	}
	s.list(x.Allow)
	s.list(x.AlsoAllow)
	s.list(x.Deny)
	if x.Strip {
		key("on_unknown", "strip")
	}
	if x.MaxDepth > 0 {
		key("max_depth", fmt.Sprint(x.MaxDepth))
	}
	for _, name := range slices.Sorted(maps.Keys(x.Providers)) {
		s.stage(x.Providers[name])
	}
	if len(s.rows) == before {
		s.add(x.Rule, "no list")
	}
}

func (s *toolSection) tool(t *toolset.Tool) {
	before := len(s.rows)
	text := func(key, value string) {
		if value != "" {
			s.add(t.ID(key), value)
		}
	}
	mark := func(key string, value *bool) {
		if value != nil {
			s.add(t.ID(key), fmt.Sprint(*value))
		}
	}
	text("source", t.Source)
	text("description", t.Description)
	text("plugin", t.Plugin)
	text("kind", t.Kind)
	text("risk", t.Risk)
	text("ask", t.Ask)
	mark("owner_only", t.OwnerOnly)
	s.list(t.Aliases)
	s.list(t.Implies)
	if t.HasModels && len(t.Models) == 0 {
		text("models", "none")
	}
	s.list(t.Models)
	s.roles(t.Roles)
	if len(t.Command) > 0 {
		s.add(t.ID("command"), t.Command...)
	}
	if t.Schema != nil {
		text("schema", fmt.Sprintf("%d bytes", len(t.Schema.Text)))
	}
	if t.MaxInvocations > 0 {
		text("constraints.max_invocations", fmt.Sprint(t.MaxInvocations))
	}
	s.list(t.OnlyAfter)
	mark("constraints.forbidden", t.Forbidden)
	if len(s.rows) == before {
		s.add(t.Pattern.Rule, "no setting of the tool layer")
	}
}

// roles adds a row for each role and file.
func (s *toolSection) roles(roles map[string]toolset.Role) {
	rows, before := map[string]int{}, len(s.rows)
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		r := roles[name]
		rule := r.Rule
		if at := strings.LastIndex(rule.ID, ".parameters."); at >= 0 {
			rule.ID = rule.ID[:at+len(".parameters")]
		}
		key := fmt.Sprint(rule.ID, rule.At.File, r.Name)
		if i, ok := rows[key]; ok {
			s.rows[i].value = append(s.rows[i].value, name)
			continue
		}
		rows[key] = len(s.rows)
		s.add(rule, r.Name+":", name)
	}
	slices.SortStableFunc(s.rows[before:], func(a, b toolRow) int { return strings.Compare(a.rule.ID+a.value[0], b.rule.ID+b.value[0]) })
}

func (s *toolSection) gate(g *toolset.GateTable) {
	for key, value := range map[string]*bool{"enabled": g.Enabled, "strict": g.Strict, "allow_parent_access": g.AllowParentAccess} {
		if value != nil {
			s.add(g.Keys[key], fmt.Sprint(*value))
		}
	}
	slices.SortFunc(s.rows, func(a, b toolRow) int { return strings.Compare(a.rule.ID, b.rule.ID) })
	if g.Shell != "" {
		s.add(g.Keys["shell"], g.Shell)
	}
	s.list(g.ToolPatterns)
	s.list(g.Exclude)
	s.roles(g.Roles)
}

func (s *toolSection) approvals(t *toolset.ApprovalTable) {
	for _, x := range []struct{ key, value string }{{"security", t.Security}, {"ask", t.Ask}, {"ask_fallback", t.AskFallback}} {
		if x.value != "" {
			s.add(t.Keys[x.key], x.value)
		}
	}
	if t.Timeout > 0 {
		s.add(t.Keys["timeout"], span(t.Timeout))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Agents)) {
		s.approvals(t.Agents[name])
	}
}

func (s *toolSection) hook(h *toolset.Hook) {
	value := append(slices.Clip(h.Command), h.URL)
	if h.URL == "" {
		value = h.Command
	}
	s.add(h.Rule, append(slices.Clip(value), "within "+span(h.Timeout))...)
	s.list(h.Tools)
}

// ToolLayer is the answer of policy show --tools.
func (s *Screen) ToolLayer(p *policy.Compiled, set *toolset.Set) {
	defer s.flush()
	s.table("", [][]cell{{c("policy"), cs(bold, p.Name)}, {c("digest"), c(p.Digest)}})
	for _, l := range set.Layers {
		for _, section := range toolSections(l) {
			if len(section.rows) > 0 {
				s.line("\n%s", s.in(bold, l.Author.String()+": "+section.name))
				s.toolRows(section.rows)
			}
		}
	}
	s.line("\n%s", s.in(bold, "in force, of all authors"))
	var rows [][]cell
	for _, x := range inForce(set) {
		rows = append(rows, []cell{c(x.Key), c(x.Value), c(x.from)})
	}
	s.table("  ", rows)
}

// toolRows writes the rows of a section, those of files before those that are built in. The kinds of built-in tools share lines.
func (s *Screen) toolRows(rows []toolRow) {
	slices.SortStableFunc(rows, func(a, b toolRow) int {
		if a.rule.Builtin() == b.rule.Builtin() {
			return 0
		} else if a.rule.Builtin() {
			return 1
		}
		return -1
	})
	var cells [][]cell
	kinds := map[string][]string{}
	for _, r := range rows {
		name, kind := strings.CutSuffix(strings.TrimPrefix(r.rule.ID, "tools."), ".kind")
		if kind && r.rule.Builtin() {
			kinds[r.value[0]] = append(kinds[r.value[0]], name)
			continue
		}
		lines := folded(r.value)
		cells = append(cells, []cell{c(r.rule.ID), c(lines[0]), cs(faint, position(r.rule.At))})
		for _, more := range lines[1:] {
			cells = append(cells, []cell{c(""), c(more)})
		}
	}
	s.table("  ", cells)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		slices.Sort(kinds[kind])
		s.line("  built-in tools of kind %s", kind)
		s.list("    ", []string{strings.Join(kinds[kind], " ")})
	}
}

// folded joins words to lines that fit into a column.
func folded(words []string) (lines []string) {
	line := ""
	for _, w := range words {
		if line != "" && len(line)+1+len(w) > widest {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}
