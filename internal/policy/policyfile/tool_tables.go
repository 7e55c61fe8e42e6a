package policyfile

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Tool is one [tools.PATTERN] table.
type Tool struct {
	Source         string          `key:"source" words:"local mcp builtin" doc:"Which kind of program runs the tool. Grants for mcp and builtin are rejected, as toolguard doesn't enforce them; the value of all files together decides."`
	Description    string          `key:"description" doc:"For people."`
	Plugin         string          `key:"plugin" enforced:"no" doc:"The plugin that brings the tool."`
	Aliases        List[Text]      `key:"aliases" enforced:"no" doc:"Aliases of the tool."`
	Kind           string          `key:"kind" enforced:"no" words:"read list create modify delete move execute fetch" doc:"What the tool does to the paths in its arguments."`
	Risk           string          `key:"risk" enforced:"no" words:"low medium high critical" doc:"The tool's risk class; by its kind where it's left out."`
	OwnerOnly      *bool           `key:"owner_only" enforced:"no" doc:"Visible to the owner only."`
	Implies        List[Text]      `key:"implies" enforced:"no" doc:"Tools that follow this tool into view, unless they're denied."`
	Models         List[Text]      `key:"models" enforced:"no" doc:"The only models that see the tool, as PROVIDER/MODEL or PROVIDER." like:"[\"openai\"]"`
	Ask            string          `key:"ask" enforced:"no" words:"off on-miss always" doc:"When a human is asked about a call."`
	Parameters     map[string]Role `key:"parameters" enforced:"no" doc:"What arguments of this tool are, by name."`
	PathParameters List[Text]      `key:"path_parameters" enforced:"no" doc:"Arguments of this tool that are paths."`
	Command        []Text          `key:"command" enforced:"no" doc:"The program and arguments of a local tool; {NAME} as a whole element stands for an argument of the call." like:"[\"rg\", \"--\", \"{pattern}\"]"`
	Schema         *ArgumentSchema `key:"schema" enforced:"no" doc:"A JSON Schema of a local tool's arguments: a file, or a table."`
	Constraints    *Constraints    `key:"constraints" doc:"When and how often the tool may be called."`
	Access         *Access         `key:"access" doc:"Grants for this tool, merged over the file's [access]."`
	Position       policy.Position
	Keys           lineCols
}

// Constraints is [tools.PATTERN.constraints].
type Constraints struct {
	MaxInvocations int        `key:"max_invocations" enforced:"no" range:"1 1000000000" doc:"How often, in one invocation of an agent."`
	OnlyAfter      List[Text] `key:"only_after" enforced:"no" doc:"Tools that must have been completed before."`
	Forbidden      *bool      `key:"forbidden" enforced:"no" doc:"Never for the model."`
	Position       policy.Position
	Keys           lineCols
}

// Group is a list of tools.
type Group struct {
	List[Text]
	Position policy.Position
}

func (g *Group) decode(d *decoder, n *tomltree.Node) {
	g.Position = d.position(n.Off)
	g.List.decode(d, n)
}

// Stage is one stage of visibility: an entry of [profiles], or of [authorities].
type Stage struct {
	Allow     *List[Text]       `key:"allow" enforced:"no" doc:"The tools that stay; an empty list leaves none, no list doesn't filter."`
	Deny      List[Text]        `key:"deny" enforced:"no" doc:"The tools to remove, also from allow."`
	AlsoAllow List[Text]        `key:"also_allow" enforced:"no" doc:"Tools to add to the list of this stage's profile."`
	OnUnknown string            `key:"on_unknown" enforced:"no" words:"report strip" doc:"What happens when allow names only tools that aren't there: report it and allow nothing, or (in profiles, provider and group stages) strip the list."`
	Profile   Text              `key:"profile" enforced:"no" doc:"The profile to start from."`
	Providers map[string]*Stage `key:"providers" doc:"The same for one provider of models, or for PROVIDER/MODEL."`
	MaxDepth  int               `key:"max_depth" enforced:"no" range:"1 100" doc:"In subagent: how deep sub-agents may start sub-agents (default 1)."`
	Access    *Access           `key:"access" doc:"What this authority grants; it narrows the grants of the other authorities."`
	Limits    Limits            `key:"limits" doc:"Limits of this authority; the smallest one applies."`
	Position  policy.Position
	Keys      lineCols
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

func (v *Named) decode(d *decoder, n *tomltree.Node) {
	if n.Kind != tomltree.Table {
		d.wrong(n, "a table", "")
		return
	}
	info := shapeOf(reflect.TypeFor[Stage]())
	own := &tomltree.Node{Off: n.Off}
	v.Names = map[string]*Stage{}
	for _, e := range n.Keys {
		// A key that is nearly one of a stage's is a mistake, not a name: otherwise it would be ignored in silence.
		if info.field(e.Name) != nil || e.Node.Kind != tomltree.Table || near(e.Name, info.names()) {
			own.Add(e.Name, e.Off, e.Node)
			continue
		}
		s := new(Stage)
		d.push(e.Name)
		d.value(e.Node, reflect.ValueOf(s).Elem(), nil)
		d.pop()
		v.Names[e.Name] = s
	}
	d.structure(own, reflect.ValueOf(&v.Stage).Elem())
}

func near(name string, keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return nearest.Distance(strings.ToLower(name), k, 2) < 2
	})
}

// Gate is [gate].
type Gate struct {
	Enabled           *bool           `key:"enabled" enforced:"no" doc:"Judge tool calls at all (default true); the command line and TOOLGUARD_GATE are stronger."`
	Strict            *bool           `key:"strict" enforced:"no" doc:"Deny what can't be understood."`
	AllowParentAccess *bool           `key:"allow_parent_access" enforced:"no" doc:"Count the folder that contains the workspace as workspace, where the policy has no fs rule of its own."`
	Shell             string          `key:"shell" enforced:"no" words:"auto bash posix zsh" doc:"The shell that executes the commands of calls (default auto)."`
	ToolPatterns      List[Text]      `key:"tool_patterns" enforced:"no" doc:"Tools of kind modify: whole names or globs, in any case."`
	Exclude           List[Text]      `key:"exclude" enforced:"no" doc:"Tools whose arguments aren't judged."`
	Parameters        map[string]Role `key:"parameters" enforced:"no" doc:"What arguments are, by name, for all tools."`
	PathParameters    List[Text]      `key:"path_parameters" enforced:"no" doc:"Names of arguments that are paths, for all tools."`
	Position          policy.Position
	Keys              lineCols
}

// Role is what an argument of a call is.
type Role Text

var roles = []string{"path", "patch", "url", "command", "argv", "cwd", "text"}

func (r *Role) decode(d *decoder, n *tomltree.Node) {
	r.Position = d.position(n.Off)
	if s, ok := d.text(n); ok && d.word(n.Off, s, roles) {
		r.S = s
	}
}

// Approvals is [approvals].
type Approvals struct {
	Security    string                `key:"security" enforced:"no" words:"deny allowlist full" doc:"What runs without an approval (default allowlist)."`
	Ask         string                `key:"ask" enforced:"no" words:"off on-miss always" doc:"When a human is asked (default on-miss)."`
	AskFallback string                `key:"ask_fallback" enforced:"no" words:"deny allowlist full" doc:"What applies without an answer (default deny)."`
	Timeout     Duration              `key:"timeout" enforced:"no" doc:"How long a request waits." like:"\"2m\""`
	Agents      map[string]*Approvals `key:"agents" doc:"The same for single agents."`
	Position    policy.Position
	Keys        lineCols
}

func (a *Approvals) check(d *decoder, n *tomltree.Node) {
	if t := a.Timeout; t.D != 0 && (t.D < time.Second || t.D > 24*time.Hour) {
		d.failAt(t.Position, "", `timeout must be from "1s" to "24h", not %s`, tomltree.Quote(n.Get("timeout").Node.Text))
	}
	for name, own := range a.Agents {
		if own.Agents != nil {
			d.failAt(own.Position.At(own.Keys["agents"]), "", "agent %s can't have agents of its own", tomltree.Quote(name))
		}
	}
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

// longestHook is the longest deadline of a hook.
const longestHook = time.Minute

func (h *Hook) check(d *decoder, n *tomltree.Node) {
	if h.Timeout.D > longestHook {
		d.failAt(h.Timeout.Position, "", `timeout must be at most "60s", not %s`, tomltree.Quote(n.Get("timeout").Node.Text))
	}
	switch {
	case len(h.Command) == 0 && h.URL == "":
		d.fail(n.Off, `write command = ["program"] or url = "http://…"`, "neither command nor url %s", d.here())
	case len(h.Command) > 0 && h.URL != "":
		d.fail(n.Get("url").Off, "make two hooks of it", "both command and url %s", d.here())
	case h.URL != "":
		u, err := url.Parse(h.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			d.fail(n.Get("url").Node.Off, "", "url %s isn't an http or https address without a password", tomltree.Quote(h.URL))
		}
	}
}
