package policyfile

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// ToolKeys has the path of every key of the tool layer that isn't enforced, and no other key.
func TestToolKeys(t *testing.T) {
	for body, want := range map[string]string{
		fsA: "",
		"[tools.\"fs_*\"]\nsource = \"local\"\ndescription = \"x\"\nowner_only = false\n[tools.\"fs_*\".access]\n":       "",
		"[tools.\"fs_*\"]\nowner_only = true\nrisk = \"low\"\n":                                                          "tools.fs_*.owner_only tools.fs_*.risk",
		"[tools.x.constraints]\nmax_invocations = 3\nonly_after = [\"y\"]\nforbidden = true\n":                           "tools.x.constraints.max_invocations tools.x.constraints.only_after tools.x.constraints.forbidden",
		"[tools.x]\nimplies = [\"y\"]\naliases = [\"z\"]\nplugin = \"p\"\nmodels = [\"m\"]\npath_parameters = [\"f\"]\n": "tools.x.implies tools.x.aliases tools.x.plugin tools.x.models tools.x.path_parameters",
		"[groups]\ng = [\"x\"]\n": "",
		"[profiles.p]\nallow = [\"x\"]\n[profiles.p.limits]\npids = 3\n":                                                                      "profiles.p.allow",
		"[authorities.agent]\ndeny = [\"x\"]\n[authorities.agent.coder]\nallow = []\non_unknown = \"report\"\n[authorities.agent.q.access]\n": "authorities.agent.coder.allow authorities.agent.coder.on_unknown authorities.agent.deny",
		"[profiles.p]\n[authorities.global]\nprofile = \"p\"\n[authorities.global.providers.openai]\ndeny = [\"x\"]\n":                        "authorities.global.profile authorities.global.providers.openai.deny",
		"[authorities.subagent]\nmax_depth = 2\n":                                                                                             "authorities.subagent.max_depth",
		"[gate]\nstrict = true\nenabled = false\ntool_patterns = [\"x\"]\nexclude = [\"y\"]\nallow_parent_access = true\n":                    "gate.strict gate.tool_patterns gate.exclude gate.allow_parent_access",
		"[approvals]\nask = \"always\"\ntimeout = \"2m\"\nask_fallback = \"deny\"\n[approvals.agents.a]\nsecurity = \"deny\"\n":               "approvals.ask approvals.timeout approvals.ask_fallback approvals.agents.a.security",
		"[[hooks.after_tool_call]]\nurl = \"http://127.0.0.1/\"\n":                                                                            "hooks.after_tool_call",
	} {
		src := load(t, request("p.toml"), tree{"/w/p.toml": policyText(body)})
		var got []string
		for _, k := range src.ToolKeys {
			if got = append(got, k.ID); k.Position.File != "p.toml" || k.Position.Line < 2 {
				t.Errorf("%s is at %s", k.ID, k.Position)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s\n got %s\nwant %s", body, s, want)
		}
	}
	req := request("p.toml")
	req.HostDir = "/h"
	src := load(t, req, tree{"/w/p.toml": policyText(fsA), "/h/a.toml": policyText("[gate]\nstrict = true\n")})
	if len(src.ToolKeys) != 1 || src.ToolKeys[0] != (policy.Key{ID: "host.gate.strict", Position: policy.Position{File: "/h/a.toml", Line: 3, Col: 1}}) {
		t.Errorf("%+v", src.ToolKeys)
	}
}
