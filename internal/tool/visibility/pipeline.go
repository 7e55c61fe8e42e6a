package visibility

import (
	"cmp"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// The labels of the stages, in their order. Those of profiles, providers and agents have the name appended.
const (
	labelTools           = "tools" // names, models and what is forbidden
	labelOwner           = "owner"
	labelProfile         = "tools.profile"
	labelProviderProfile = "tools.provider-profile"
	labelGlobal          = "tools.global"
	labelGlobalProvider  = "tools.global-provider"
	labelAgent           = "tools.agent"
	labelAgentProvider   = "tools.agent-provider"
	labelGroup           = "group tools.allow"
	labelSandbox         = "sandbox tools.allow"
	labelSubagent        = "subagent tools.allow"
)

// stage is a step of the pipeline: filters that a tool must pass, all of them.
type stage struct {
	label   string
	filters []filter
	tooDeep *toolset.Rule
}

// absent reports that the policy has nothing for the stage.
func (s *stage) absent() bool { return len(s.filters) == 0 && s.tooDeep == nil }

// filter is one list of denied and one of allowed tools.
type filter struct {
	rule        toolset.Rule
	deny, allow *toolset.Matcher // allow is nil where it doesn't filter
	allowList   []toolset.Entry
	strip       bool
}

// pipeline makes the stages of one author.
type pipeline struct {
	layer  *toolset.Layer
	caller Caller
	stages []stage
	warn   func(format string, args ...any)
}

func (p *pipeline) build() {
	c, l := p.caller, p.layer
	var agent *toolset.Stage
	if c.Agent != "" {
		agent = p.named(&l.Agent, c.Agent, "agent")
	}
	profile := cmp.Or(c.Profile, l.ChosenProfile(c.Agent))
	filters := p.profileFilters(profile, agent, l.Global)
	filters = append(filters, p.whole(p.named(&l.Profile, profile, "profile"))...)
	p.add(labelled(labelProfile, profile), filters...)

	global, agents := providerOf(l.Global, c), providerOf(agent, c)
	if c.Provider != "" {
		profile := toolset.FirstProfile(agents, global)
		filters := p.whole(p.named(&l.Provider, strings.ToLower(c.Provider), "provider"))
		filters = append(filters, p.profileFilters(profile, agents, global)...)
		p.add(labelled(labelProviderProfile, cmp.Or(profile, c.Provider)), filters...)
	}
	p.add(labelGlobal, p.own(l.Global)...)
	if c.Provider != "" {
		p.add(labelGlobalProvider, p.own(global)...)
	}
	if c.Agent != "" {
		p.add(labelled(labelAgent, c.Agent), p.own(agent)...)
	}
	if c.Agent != "" && c.Provider != "" {
		p.add(labelled(labelAgentProvider, c.Agent), p.own(agents)...)
	}
	p.add(labelGroup, p.whole(p.named(&l.Group, c.Group, "group"))...)
	if c.Sandboxed {
		p.add(labelSandbox, p.whole(l.Sandbox)...)
	}
	if c.Depth > 0 {
		p.add(labelSubagent, p.whole(l.Subagent)...)
		p.limitDepth()
	}
}

// labelled appends a name to a label.
func labelled(label, name string) string {
	if name == "" {
		return label
	}
	return label + " (" + name + ")"
}

func (p *pipeline) add(label string, filters ...filter) {
	p.stages = append(p.stages, stage{label: label, filters: filters})
}

// defaultDepth is how deep sub-agents may be where no policy says.
const defaultDepth = 1

func (p *pipeline) limitDepth() {
	most, rule := defaultDepth, toolset.Rule{}
	if s := p.layer.Subagent; s != nil && s.MaxDepth > 0 {
		most, rule = s.MaxDepth, s.Rule
		rule.ID += ".max_depth"
	}
	if p.caller.Depth > most {
		p.stages[len(p.stages)-1].tooDeep = &rule
	}
}

// named returns the stage of a name. Where the stage for all has to serve a name, or none does, it warns.
func (p *pipeline) named(n *toolset.Named, name, kind string) *toolset.Stage {
	s, own := n.For(name)
	if !own && name != "" && len(n.Names) > 0 {
		p.warn("%s %q has no table: what is written for all applies", kind, name)
	}
	return s
}

// profileFilters are those of a profile, with what the stages that choose it add to its list.
func (p *pipeline) profileFilters(name string, choosers ...*toolset.Stage) []filter {
	s := p.layer.Profiles[name]
	if s == nil {
		return nil
	}
	var also []toolset.Entry
	for _, chooser := range choosers {
		if chooser != nil && chooser.Profile.Text == name {
			also = append(also, chooser.AlsoAllow...)
		}
	}
	return append(p.stage(s, also), p.stage(providerOf(s, p.caller), nil)...)
}

// providerOf is a stage's own stage for the caller's provider: that of PROVIDER/MODEL, else that of PROVIDER.
func providerOf(s *toolset.Stage, c Caller) *toolset.Stage {
	if s == nil || c.Provider == "" {
		return nil
	}
	if own := s.Providers[strings.ToLower(c.Provider+"/"+c.Model)]; own != nil && c.Model != "" {
		return own
	}
	return s.Providers[strings.ToLower(c.Provider)]
}

// own is what a stage says by itself: its profile and its providers have stages of their own.
func (p *pipeline) own(s *toolset.Stage) []filter { return p.stage(s, nil) }

// whole is everything that a stage says, with its profile and what it has for the provider.
func (p *pipeline) whole(s *toolset.Stage) (all []filter) {
	if s == nil {
		return nil
	}
	if profile := p.layer.Profiles[s.Profile.Text]; profile != nil {
		all = p.stage(profile, s.AlsoAllow)
	}
	all = append(all, p.stage(s, nil)...)
	return append(all, p.stage(providerOf(s, p.caller), nil)...)
}

// stage is the filter of one stage; none if the stage says nothing.
func (p *pipeline) stage(s *toolset.Stage, also []toolset.Entry) []filter {
	if s == nil || !s.Filters && len(s.Deny) == 0 {
		return nil
	}
	f := filter{rule: s.Rule, strip: s.Strip}
	if len(s.Deny) > 0 {
		f.deny = p.layer.Matcher(s.Deny)
	}
	if s.Filters {
		f.allowList = append(append([]toolset.Entry{}, s.Allow...), also...)
		f.allow = p.layer.Matcher(f.allowList)
	}
	return []filter{f}
}
