package policyfile

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// Tool is one [tools.PATTERN] table.
type Tool struct {
	Source         string       `key:"source" words:"local mcp builtin" doc:"Which kind of program runs the tool. Grants for mcp and builtin are rejected, as toolguard doesn't enforce them; the value of all files together decides."`
	Description    string       `key:"description" doc:"For people."`
	Risk           string       `key:"risk" enforced:"no" words:"low medium high critical" doc:"The tool's risk class, for the manifest."`
	OwnerOnly      *bool        `key:"owner_only" enforced:"no" doc:"Visible to the owner only."`
	Implies        List[Text]   `key:"implies" enforced:"no" doc:"Tools that may be used wherever this one may be used."`
	Aliases        List[Text]   `key:"aliases" enforced:"no" doc:"Aliases of the tool."`
	Plugin         string       `key:"plugin" enforced:"no" doc:"The plugin that brings the tool."`
	Models         *List[Text]  `key:"models" enforced:"no" doc:"The only models that see the tool."`
	PathParameters List[Text]   `key:"path_parameters" enforced:"no" doc:"Arguments of this tool that are paths, beyond those of [gate]."`
	Constraints    *Constraints `key:"constraints" doc:"When and how often the tool may be called."`
	Access         *Access      `key:"access" doc:"Grants for this tool, merged over the file's [access]."`
	Position       policy.Position
}

// Constraints is [tools.PATTERN.constraints].
type Constraints struct {
	MaxInvocations int        `key:"max_invocations" enforced:"no" range:"1 1000000000" doc:"How often, in one invocation of an agent."`
	OnlyAfter      List[Text] `key:"only_after" enforced:"no" doc:"Tools that must have been completed before."`
	Forbidden      bool       `key:"forbidden" enforced:"no" doc:"Never for the model."`
}

// Group is a list of tools.
type Group struct{ List[Text] }

// Stage is one stage of visibility: an entry of [profiles], or of [authorities].
type Stage struct {
	Allow     *List[Text]       `key:"allow" enforced:"no" doc:"The tools that stay; an empty list leaves none, no list doesn't filter."`
	Deny      List[Text]        `key:"deny" enforced:"no" doc:"The tools to remove, also from allow."`
	OnUnknown string            `key:"on_unknown" enforced:"no" words:"report strip" doc:"What happens when allow names only tools of plugins that aren't loaded: report it and allow nothing, or strip the list."`
	Profile   Text              `key:"profile" enforced:"no" doc:"The profile to start from."`
	Providers map[string]*Stage `key:"providers" doc:"The same for one provider of models."`
	MaxDepth  int               `key:"max_depth" enforced:"no" range:"1 100" doc:"How deep sub-agents may start sub-agents."`
	Access    *Access           `key:"access" doc:"What this authority grants; it narrows the grants of the other authorities."`
	Limits    Limits            `key:"limits" doc:"Limits of this authority; the smallest one applies."`
	Position  policy.Position
}

// Authorities is [authorities].
type Authorities struct {
	Profile  *Named `key:"profile" doc:"The profile's layer, and those of single profiles by name."`
	Provider *Named `key:"provider" doc:"The provider's layer, and those of single providers by name."`
	Global   *Stage `key:"global" doc:"The layer for everybody."`
	Agent    *Named `key:"agent" doc:"The agents' layer, and those of single agents by name."`
	Group    *Named `key:"group" doc:"The groups' layer, and those of single groups by name."`
	Sandbox  *Stage `key:"sandbox" doc:"The layer of the sandbox."`
	Subagent *Stage `key:"subagent" doc:"The layer of sub-agents."`
}

// Named is an authority's stage with further ones by name: [authorities.agent] and [authorities.agent.coder].
type Named struct {
	Stage
	Names map[string]*Stage
}

func (v *Named) decode(d *decoder, n *node) {
	if n.kind != aTable {
		d.wrong(n, "a table", "")
		return
	}
	info := shapeOf(reflect.TypeFor[Stage]())
	own := &node{off: n.off}
	v.Names = map[string]*Stage{}
	for _, e := range n.keys {
		// A key that is nearly one of a stage's is a mistake, not a name: otherwise it would be ignored in silence.
		if info.field(e.name) != nil || e.node.kind != aTable || near(e.name, info.names()) {
			own.add(e.name, e.off, e.node)
			continue
		}
		s := new(Stage)
		d.push(e.name)
		d.value(e.node, reflect.ValueOf(s).Elem(), nil)
		d.pop()
		v.Names[e.name] = s
	}
	d.structure(own, reflect.ValueOf(&v.Stage).Elem())
}

func near(name string, keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return distance(strings.ToLower(name), k, 2) < 2
	})
}

// Gate is [gate].
type Gate struct {
	Enabled           *bool      `key:"enabled" enforced:"no" doc:"Judge tool calls at all; the command line and TOOLGUARD_GATE are stronger."`
	ToolPatterns      List[Text] `key:"tool_patterns" enforced:"no" doc:"The tools whose arguments are judged: whole names or globs, in any case."`
	Exclude           List[Text] `key:"exclude" enforced:"no" doc:"Tools that aren't judged."`
	PathParameters    List[Text] `key:"path_parameters" enforced:"no" doc:"Names of arguments that are paths."`
	Strict            bool       `key:"strict" enforced:"no" doc:"Reject what can't be understood."`
	AllowParentAccess bool       `key:"allow_parent_access" enforced:"no" doc:"Let paths leave the workspace upwards."`
}

// Approvals is [approvals].
type Approvals struct {
	Security    string                `key:"security" enforced:"no" words:"deny allowlist full" doc:"What runs without an approval (default allowlist)."`
	Ask         string                `key:"ask" enforced:"no" words:"off on-miss always" doc:"When a human is asked (default on-miss)."`
	AskFallback string                `key:"ask_fallback" enforced:"no" words:"deny allowlist full" doc:"What applies without an answer (default deny)."`
	Timeout     Duration              `key:"timeout" enforced:"no" doc:"How long a request waits." like:"\"2m\""`
	Agents      map[string]*Approvals `key:"agents" doc:"The same for single agents."`
}

// Hooks is [hooks]: what runs around a tool call, in order.
type Hooks struct {
	Before List[Hook] `key:"before_tool_call" enforced:"no" doc:"May change the arguments, block, or ask for an approval; blocks when it fails."`
	After  List[Hook] `key:"after_tool_call" enforced:"no" doc:"Receives the result; the call doesn't wait for it."`
}

// Hook is a program or an HTTP endpoint.
type Hook struct {
	Command  []string   `key:"command" doc:"The program and its arguments." like:"[\"./check-call\"]"`
	URL      string     `key:"url" doc:"The endpoint." like:"\"http://127.0.0.1:8080/hook\""`
	Timeout  Duration   `key:"timeout" doc:"The deadline." like:"\"5s\""`
	Tools    List[Text] `key:"tools" doc:"The only tools that it's for."`
	Position policy.Position
}

func (h *Hook) check(d *decoder, n *node) {
	switch {
	case len(h.Command) == 0 && h.URL == "":
		d.fail(n.off, `write command = ["program"] or url = "http://…"`, "neither command nor url %s", d.here())
	case len(h.Command) > 0 && h.URL != "":
		d.fail(n.get("url").off, "make two hooks of it", "both command and url %s", d.here())
	case h.URL != "":
		u, err := url.Parse(h.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			d.fail(n.get("url").node.off, "", "url %s isn't an http or https address without a password", quote(h.URL))
		}
	}
}
