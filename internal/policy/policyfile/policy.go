package policyfile

import (
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// version is the only version of the format so far.
const version = 1

// Policy is a whole file.
type Policy struct {
	Version      int               `key:"version" required:"true" like:"1" doc:"The version of the format: 1."`
	Name         string            `key:"name" doc:"Shown in events; the file's name when left out."`
	Extends      []Text            `key:"extends" doc:"Earlier layers of the same authority, in order: files relative to this one's folder, or preset:NAME." like:"[\"preset:python\"]"`
	Workspace    *Text             `key:"workspace" doc:"The folder that relative paths are relative to, itself relative to this file's folder; when left out, the nearest folder above the current one that looks like a project."`
	Access       *Access           `key:"access" doc:"What is granted."`
	Audit        string            `key:"audit" words:"denials exec" doc:"What is recorded of the session: denials, or exec, the programs that it executes too. It's exec when any file of any authority has exec."`
	Limits       Limits            `key:"limits" doc:"Limits of the session."`
	Tools        map[string]*Tool  `key:"tools" doc:"Settings of single tools, by name or pattern: their access applies to exec --tool."`
	Environment  Text              `key:"environment" doc:"The environment that applies where none is chosen: a name of environments."`
	Environments map[string][]Text `key:"environments" doc:"Files of further layers by environment; those of the chosen one are read after this file." like:"{ production = [\"prod.toml\"] }"`
	Groups       map[string]*Group `key:"groups" doc:"Groups of tools, for group:NAME in patterns."`
	Profiles     map[string]*Stage `key:"profiles" doc:"Stages of visibility to choose from; this version enforces their access and limits."`
	Authorities  Authorities       `key:"authorities" doc:"The policies of authorities other than the session."`
	Gate         *Gate             `key:"gate" doc:"How tool calls are judged before they run."`
	Approvals    *Approvals        `key:"approvals" doc:"When a person is asked about a tool call."`
	Hooks        Hooks             `key:"hooks" doc:"What is run before and after tool calls."`
	Position     policy.Position
	AuditAt      policy.LineCol
	ToolKeys     []policy.Key // keys of the tool layer, which isn't enforced
}

func (p *Policy) check(d *decoder, n *tomltree.Node) {
	if p.Version != version {
		d.fail(n.Get("version").Node.Off, "this toolguard reads version 1", "version %d is unknown", p.Version)
	}
	p.AuditAt = d.lineCol(n, "audit")
}

// decodePolicy reads one file. The errors are in file order.
func decodePolicy(name string, src []byte) (*Policy, policy.Errors) {
	d := newDecoder(name, src)
	root, err := tomltree.Parse(src)
	if err != nil {
		d.fail(err.Off, err.Hint, "%s", err.Msg)
		return nil, d.mistakes()
	}
	p := new(Policy)
	d.decode(root, p)
	p.ToolKeys = d.toolKeys
	return p, d.mistakes()
}
