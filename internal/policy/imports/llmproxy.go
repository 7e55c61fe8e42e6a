package imports

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// llmProxy reads the configuration of llm-interactive-proxy: sandboxing and access_policies.
func (i *importer) llmProxy(o *object) {
	i.note("access", "The source has no rules for files that are read, hosts, variables and programs: each tool has all. This is toolguard's default instead.")
	i.set("access", "default", `{ net = "deny", commands = "allow" }`)
	i.proxyGate(o.object("sandboxing"), o.has("sandboxing"))
	session := o.object("session")
	reactor := session.object("tool_call_reactor")
	if o.has("access_policies") {
		reactor = o
	}
	on, given := reactor.flag("enabled")
	list := reactor.objects("access_policies")
	if given && !on && len(list) > 0 {
		i.leave(reactor.at("access_policies"), "they aren't in force there, as enabled is false; left out")
		list = nil
	}
	i.proxyPolicies(list)
	session.unrelated("cleanup_enabled", "cleanup_interval", "default_interactive_mode", "session_continuity")
	o.unrelated("enabled", "host", "port", "logging", "backends", "model_defaults", "failover_routes", "proxy_timeout",
		"command_prefix", "empty_response", "default_backend", "identity")
}

func (i *importer) proxyGate(g *object, given bool) {
	on, has := g.flag("enabled")
	switch {
	case !has:
		i.note("gate", "The source's default is false: it checks no paths.")
		i.set("gate", "enabled", "true")
	case on:
		i.set("gate", "enabled", "true", g.at("enabled"))
	default:
		i.set("gate", "enabled", "false", g.at("enabled"))
	}
	for _, x := range [][2]string{{"strict_mode", "strict"}, {"allow_parent_access", "allow_parent_access"}} {
		if on, _ := g.flag(x[0]); on {
			i.set("gate", x[1], "true", g.at(x[0]))
		}
	}
	if !given {
		return
	}
	var patterns, from []string
	for _, key := range []string{"default_tool_patterns", "custom_tool_patterns"} {
		list, _ := g.texts(key)
		for _, re := range list {
			patterns = append(patterns, i.anywhere(g.at(key), re, "more tools are checked")...)
		}
		if len(list) > 0 {
			from = append(from, g.at(key))
		}
	}
	if len(patterns) > 0 {
		i.set("gate", "tool_patterns", tomltext.Strings(unique(patterns)), from...)
	}
	exempt, _ := g.texts("excluded_tools")
	if names := i.whole(g.at("excluded_tools"), exempt, "these tools are checked as well"); len(names) > 0 {
		i.set("gate", "exclude", tomltext.Strings(names), g.at("excluded_tools"))
	}
	if names, _ := g.texts("path_parameter_names"); len(names) > 0 {
		i.proxyParameters(g.at("path_parameter_names"), names)
	}
}

// proxyParameters writes the names of arguments that are paths. Those whose role is built in keep it.
func (i *importer) proxyParameters(at string, names []string) {
	var out []string
	for _, n := range names {
		switch low := strings.ToLower(n); {
		case low == "patch" || low == "diff" || low == "cwd" || low == "workdir" || slices.Contains(out, low):
		case low == "" || strings.ContainsAny(low, "*\x00"):
			i.leave(at, "no argument has the name %s", tomltext.Quote(n))
		default:
			out = append(out, low)
		}
	}
	if len(out) > 0 {
		i.set("gate", "path_parameters", tomltext.Strings(out), at)
	}
}

// whole returns the patterns of what expressions allow, of whole names.
func (i *importer) whole(at string, list []string, without string) []string {
	var out []string
	for _, re := range list {
		e := expressionOf(re)
		own := e.whole()
		switch {
		case own == nil:
			i.leave(at, "%s is no pattern; left out: %s", tomltext.Quote(re), without)
		case len(own) < len(e.patterns):
			i.leave(at, "%s has names that no tool can have; left out", tomltext.Quote(re))
		}
		out = append(out, own...)
	}
	return unique(out)
}

// anywhere returns the patterns of the names that an expression is found in.
func (i *importer) anywhere(at, re, wider string) []string {
	e := expressionOf(re)
	own := e.anywhere()
	switch {
	case !e.exact:
		i.leave(at, "%s is no pattern; a wider one is written, so %s", tomltext.Quote(re), wider)
	case len(own) < len(e.patterns):
		i.leave(at, "%s has names that no tool can have; left out", tomltext.Quote(re))
	}
	return own
}

// proxyPolicy is one entry of access_policies.
type proxyPolicy struct {
	*object
	priority     int64
	model, agent string
}

// proxyPolicies writes access_policies. There, the policy with the highest priority that matches decides alone. Here, all that match
// restrict, so it's never wider.
func (i *importer) proxyPolicies(list []*object) {
	policies := make([]proxyPolicy, len(list))
	for n, o := range list {
		p := proxyPolicy{object: o, model: o.text("model_pattern"), agent: o.text("agent_pattern")}
		o.text("name")
		o.text("block_message")
		switch v := o.get("priority").(type) {
		case nil:
		case int64:
			p.priority = v
		default:
			i.fail(o.at("priority"), "it isn't a whole number")
		}
		if p.model == "" {
			i.fail(o.at("model_pattern"), "it isn't given")
		}
		policies[n] = p
	}
	slices.SortStableFunc(policies, func(a, b proxyPolicy) int { return cmp.Compare(b.priority, a.priority) })
	stages, order, selectors := map[string]*stage{}, []string{}, map[[2]string]string{}
	for _, p := range policies {
		if by, shadowed := selectors[[2]string{p.model, p.agent}]; shadowed {
			i.leave(p.path, "%s is for the same models and agents, and decides; left out", by)
			p.listed()
			continue
		}
		selectors[[2]string{p.model, p.agent}] = p.path
		header := i.proxyStage(p)
		if stages[header] == nil {
			stages[header] = &stage{}
			order = append(order, header)
		}
		i.proxyRules(p, stages[header])
	}
	if len(order) > 1 || len(policies) > 1 {
		i.leave("access_policies", "each policy that matches restricts here; there, the one with the highest priority decides alone")
	}
	for _, header := range order {
		stages[header].write(i, header)
	}
}

var (
	providerModel = lazy.Regexp(`^\^?([A-Za-z0-9_-]+):(.*)$`)
	plainName     = lazy.Regexp(`^\^([A-Za-z0-9_-]+)\$$`)
)

// proxyStage returns the stage for the models and agents of a policy: one that is for no fewer.
func (i *importer) proxyStage(p proxyPolicy) string {
	header := "authorities.global"
	agent := plainName().FindStringSubmatch(p.agent)
	switch {
	case agent != nil:
		header = join("authorities", "agent", agent[1])
	case p.agent != "":
		i.leave(p.at("agent_pattern"), "%s isn't one whole name (^NAME$): written for every agent", tomltext.Quote(p.agent))
	}
	if p.model == ".*" || p.model == "^.*$" || p.model == "^.*" {
		return header
	}
	m := providerModel().FindStringSubmatch(p.model)
	if m == nil || strings.Contains(p.model, "|") {
		i.leave(p.at("model_pattern"), "%s names no provider: written for every model", tomltext.Quote(p.model))
		return header
	}
	if m[2] != "" && m[2] != ".*" || p.model[0] != '^' {
		i.leave(p.at("model_pattern"), "%s: written for every model of the provider %s, and for no other one whose name ends so", tomltext.Quote(p.model), m[1])
	}
	return header + "." + join("providers", strings.ToLower(m[1]))
}

func (i *importer) proxyRules(p proxyPolicy, s *stage) {
	allowed, _ := p.texts("allowed_patterns")
	blocked, _ := p.texts("blocked_patterns")
	s.from = append(s.from, p.path)
	switch p.text("default_policy", "allow", "deny") {
	case "deny":
		// What is allowed counts before what is blocked, so the latter has no effect.
		s.restrict(i.whole(p.at("allowed_patterns"), allowed, "these tools aren't allowed"))
	case "allow":
		for _, re := range blocked {
			s.deny = append(s.deny, i.anywhere(p.at("blocked_patterns"), re, "more tools are denied")...)
		}
		if len(allowed) > 0 && len(blocked) > 0 {
			i.leave(p.at("allowed_patterns"), "a tool that is also blocked stays blocked here")
		}
	default:
		i.fail(p.at("default_policy"), "it isn't given")
	}
}
