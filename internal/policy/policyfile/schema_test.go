package policyfile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// asJSON is a tree as encoding/json would return it.
func asJSON(n *tomltree.Node) any {
	switch n.Kind {
	case tomltree.Table:
		m := map[string]any{}
		for _, e := range n.Keys {
			m[e.Name] = asJSON(e.Node)
		}
		return m
	case tomltree.Array:
		l := []any{}
		for _, i := range n.Items {
			l = append(l, asJSON(i))
		}
		return l
	case tomltree.Bool:
		return n.Bool
	case tomltree.Integer:
		return float64(n.Int)
	case tomltree.Float:
		return 1.5
	}
	return n.Text
}

func resolved(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	childtest.Must(t, json.Unmarshal(Schema(), &s))
	r, err := s.Resolve(nil)
	childtest.Must(t, err)
	return r
}

// The schema accepts every policy that the decoder accepts.
func TestSchemaAcceptsPolicies(t *testing.T) {
	r := resolved(t)
	texts := map[string]string{"everything": everything}
	for _, name := range []string{"runtime", "protect", "secrets", "default", "tools", "starter", "preset_readonly", "preset_python", "preset_node", "preset_go", "preset_git"} {
		texts[name] = string(builtinText(name))
	}
	for name, text := range texts {
		if _, errs := decodePolicy(builtinShown(name), []byte(text)); errs != nil {
			t.Errorf("%s: %v", name, errs)
		}
		root, serr := tomltree.Parse([]byte(text))
		if serr != nil {
			t.Fatal(serr)
		}
		if err := r.Validate(asJSON(root)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema rejects what the decoder rejects, except for conditions that no schema can express.
func TestSchemaRejectsMistakes(t *testing.T) {
	r := resolved(t)
	beyond := []string{
		"isn't a scheme", "doesn't begin with /", "isn't an HTTP method", "* that isn't", "name of a variable",
		"relative path", "aren't expanded", "is a URL", "with a blank", "is literal", "is no pattern", "aren't part of a name", "by ~", `"**" in the middle`, "empty self-test", "too large", "capability", "another user's home", "NUL character",
		"greater than zero", "doesn't enforce its access", "password", "preset", "can't read", "cycle", "sub/bad.toml",
		"unknown group", "unknown profile",
		`"acess" in [authorities.agent]`,
	}
	tested := 0
	for _, m := range mistakes {
		text := m.policy
		if !strings.HasPrefix(text, "version") {
			text = "version = 1\n" + text
		}
		root, serr := tomltree.Parse([]byte(text))
		if serr != nil || containsAny(m.want, beyond) {
			continue
		}
		tested++
		if r.Validate(asJSON(root)) == nil {
			t.Errorf("the schema accepts %q, for which the decoder's error is %s", m.policy, m.want)
		}
	}
	if tested < 30 {
		t.Errorf("only %d mistakes tested", tested)
	}
}

// The policy with every key has every key.
func TestEverythingIsThere(t *testing.T) {
	var schema any
	childtest.Must(t, json.Unmarshal(Schema(), &schema))
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			props, _ := v["properties"].(map[string]any)
			for key := range props {
				if !strings.Contains(everything, key+" =") && !strings.Contains(everything, "."+key) && !strings.Contains(everything, "["+key) {
					t.Errorf("no %s in it", key)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(schema)
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// everything has every key of the format.
const everything = `
version = 1
name = "everything"
extends = ["preset:go"]
workspace = "."
environment = "dev"
environments = { dev = [] }
audit = "exec"

[access]
default = { fs = "deny", net = "deny", env = "allow", commands = "allow" }
runtime = true
protect = "auto"
secrets = true
namespaces = false
syscalls = { profile = "strict", allow = ["io_uring_setup"], deny = { strategy = "append", value = ["acct"] } }
capabilities = ["CAP_CHOWN"]
tls_intercept = false
allow_degraded = ["fs.2"]
net = { strategy = "dedup", value = [{ host = "10.0.0.0/8", scheme = "https", port = 443, path_prefix = "/", methods = ["GET"], protocol = "udp", listen = true, allow = true }] }

[[access.fs]]
path = "."
read = true
write = true
create = true
update = true
delete = false
execute = true
unprotect = true
secret = true
ensure = true
literal = true

[[access.fs]]
match = "**/.env"

[[access.env]]
name = "A*"
read = true

[access.commands.git]
args = [["status", "**"]]
envs = ["HOME"]
match = [["git", "status"]]
not_match = { strategy = "replace", value = [["git", "push"]] }
enter = "tool:write"

[limits]
memory = "1.5GiB"
pids = 1
cpu = "150%"
io = "1MB/s"
wall_time = "1h30m"
open_files = 1
file_size = 1

[tools.write]
source = "local"
description = "writes"
risk = "high"
owner_only = true
implies = ["edit"]
aliases = ["w"]
plugin = "p"
models = []
path_parameters = ["where"]
kind = "modify"
ask = "off"
parameters = { text = "text" }
command = ["tee", "--", "{where}"]
schema = { type = "object", properties = { where = { type = "string" } } }
constraints = { max_invocations = 1, only_after = ["read"], forbidden = false }
access = { fs = [{ path = "x", read = true }] }

[groups]
mine = ["a", "b*"]

[profiles.mine]
allow = ["group:mine"]
deny = ["a"]
on_unknown = "strip"
providers = { openai = { deny = ["b"] } }

[authorities.profile]
deny = ["x"]

[authorities.provider.openai]
deny = ["x"]

[authorities.global]
profile = "coding"
also_allow = ["b"]
limits = { pids = 3 }

[authorities.agent]
access = { default = "deny" }

[authorities.agent.coder]
access = { default = "allow" }

[authorities.group.staff]
deny = []

[authorities.sandbox]
allow = ["a"]

[authorities.subagent]
max_depth = 2

[gate]
enabled = true
tool_patterns = ["write*"]
exclude = ["read"]
path_parameters = ["path"]
strict = true
shell = "bash"
parameters = { body = "text" }
allow_parent_access = false

[approvals]
security = "allowlist"
ask = "on-miss"
ask_fallback = "deny"
timeout = "2m"
agents = { coder = { ask = "always" } }

[[hooks.before_tool_call]]
command = ["./check", "it"]
timeout = "5s"
tools = ["write"]

[[hooks.after_tool_call]]
url = "http://127.0.0.1:8080/x"
`
