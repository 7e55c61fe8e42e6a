package policyfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// agentRows are the presets of coding agents: the state that each may write, the settings, hooks and servers that it mustn't, and
// the hosts of its model. A path without "~/" is one of the workspace.
var agentRows = []struct {
	preset, state, settings, key string
	hosts                        string
	login                        string // what it reads to be who it is
}{
	{
		"claude-code", "~/.claude.json ~/.claude/projects/p/x.jsonl ~/.claude/todos/x ~/.claude/session-env/x ~/.claude/history.jsonl ~/.claude/.credentials.json",
		"~/.claude/settings.json ~/.claude/hooks/x ~/.claude/CLAUDE.md ~/.claude/agents/x ~/.claude/skills/x/SKILL.md ~/.claude/plugins/x " +
			"~/.claude/shell-snapshots/x.sh ~/.claude/local/x .claude/settings.json .claude/settings.local.json .mcp.json sub/.claude/x",
		"ANTHROPIC_API_KEY", "api.anthropic.com claude.ai", "~/.claude/.credentials.json",
	},
	{
		"codex", "~/.codex/sessions/x ~/.codex/sqlite/state.sqlite ~/.codex/history.jsonl ~/.codex/auth.json ~/.codex/log/x",
		"~/.codex/config.toml ~/.codex/x.config.toml ~/.codex/hooks.json ~/.codex/AGENTS.md ~/.codex/rules/x ~/.codex/skills/x ~/.codex/tmp/arg0/x " +
			"~/.codex/.tmp/x ~/.codex/shell_snapshots/x .codex/config.toml .codex/hooks.json",
		"OPENAI_API_KEY", "api.openai.com chatgpt.com", "~/.codex/auth.json",
	},
	{
		"gemini", "~/.gemini/projects.json ~/.gemini/projects.json.1f.tmp ~/.gemini/projects.json.lock/x ~/.gemini/tmp/p/chats/x ~/.gemini/oauth_creds.json ~/.gemini/history/p/.git/HEAD",
		"~/.gemini/settings.json ~/.gemini/trustedFolders.json ~/.gemini/policies/x ~/.gemini/extensions/x ~/.gemini/GEMINI.md ~/.gemini/tmp/bin/rg " +
			"~/.gemini/history/p/.git/config ~/.gemini/history/p/.git/hooks/x .gemini/settings.json",
		"GEMINI_API_KEY", "generativelanguage.googleapis.com cloudcode-pa.googleapis.com", "~/.gemini/oauth_creds.json",
	},
	{
		"cursor-agent", "~/.cursor/chats/x ~/.cursor/projects/p/x ~/.cursor/prompt_history.json ~/.config/cursor/auth.json",
		"~/.cursor/cli-config.json ~/.cursor/mcp.json ~/.cursor/hooks.json ~/.cursor/rules/x ~/.local/share/cursor-agent/versions/x .cursor/mcp.json .cursor/cli.json",
		"CURSOR_API_KEY", "api2.cursor.sh", "~/.config/cursor/auth.json",
	},
	{
		"opencode", "~/.local/share/opencode/storage/opencode.db ~/.local/share/opencode/log/x ~/.local/share/opencode/auth.json ~/.local/state/opencode/x",
		"~/.config/opencode/opencode.json ~/.config/opencode/plugin/x.ts ~/.cache/opencode/bin/rg ~/.cache/opencode/node_modules/x ~/.opencode/bin/x " +
			"~/.local/share/opencode/snapshot/p/config ~/.local/share/opencode/repos/p/config opencode.json opencode.jsonc .opencode/plugin/x.ts",
		"ANTHROPIC_API_KEY", "opencode.ai models.dev api.anthropic.com", "~/.local/share/opencode/auth.json",
	},
	{
		"aider", "~/.aider/caches/x ~/.aider/analytics.json .aider.chat.history.md .aider.input.history .aider.tags.cache.v4/x",
		"~/.aider.conf.yml ~/.aider.model.settings.yml .aider.conf.yml .aider.model.settings.yml sub/.aider.conf.yml",
		"OPENAI_API_KEY", "api.openai.com api.anthropic.com", "~/.aider/oauth-keys.env",
	},
}

// Whether its files are there already or not, an agent writes its state and not its settings, and reads its own login and no other's.
func TestAgentPresets(t *testing.T) {
	var logins, hosts []string
	for _, r := range agentRows {
		logins, hosts = append(logins, r.login), append(hosts, strings.Fields(r.hosts)...)
	}
	for _, there := range []bool{false, true} {
		for _, r := range agentRows {
			s := newScene(t)
			at := func(path string) string {
				if rest, ok := strings.CutPrefix(path, "~/"); ok {
					return filepath.Join(s.home, rest)
				}
				return filepath.Join(s.work, path)
			}
			state, settings := strings.Fields(r.state), strings.Fields(r.settings)
			if there {
				for _, p := range slices.Concat(state, settings, logins) {
					childtest.Must(t, os.MkdirAll(filepath.Dir(at(p)), 0o755))
					childtest.Must(t, os.WriteFile(at(p), nil, 0o600))
				}
			}
			src, _, err := Load(Request{Policies: []string{presetPrefix + r.preset}, Dir: s.work, Home: s.home, Path: "/usr/bin:/bin", TmpDir: s.tmp}, hostfs.Machine{})
			childtest.Must(t, err)
			childtest.Must(t, Ensure(src))
			c := s.compile(t, presetPrefix+r.preset)
			may := func(path string, caps policy.Caps, want bool) {
				t.Helper()
				if got := c.CheckFS(at(path), caps).Allow; got != want {
					t.Errorf("%s, there %v: %s %s: %v", r.preset, there, caps, path, got)
				}
			}
			for _, p := range state {
				for _, caps := range []policy.Caps{policy.Read, policy.Create, policy.Update, policy.Delete} {
					may(p, caps, true)
				}
			}
			for _, p := range settings {
				for _, caps := range []policy.Caps{policy.Create, policy.Update, policy.Delete} {
					may(p, caps, false)
				}
				may(p, policy.Read, there || c.CheckFS(at(p), policy.Read).Rule != policy.NoMatch)
			}
			for _, p := range logins {
				may(p, policy.Read, p == r.login)
			}
			for _, p := range []string{"~/.ssh/id_ed25519", "~/.aws/credentials", "~/.netrc", "~/.npmrc", "~/.git-credentials", "~/.bash_history", "~/new"} {
				may(p, policy.Read, false)
				may(p, policy.Create, false)
			}
			may("~/.bashrc", policy.Create, false)
			may("src/x", policy.AllCaps, true)
			may(".git/hooks/x", policy.Create, false)
			for _, h := range append(hosts, "example.com") {
				target, err := netname.ParseTarget("https://" + h)
				childtest.Must(t, err)
				if got, own := c.CheckNet(&target).Allow, slices.Contains(strings.Fields(r.hosts), h); own && !got || h == "example.com" && got {
					t.Errorf("%s connects to %s: %v", r.preset, h, got)
				}
			}
			if !c.CheckEnv(r.key).Allow || !c.CheckEnv("HOME").Allow || c.CheckEnv("AWS_SECRET_ACCESS_KEY").Allow {
				t.Errorf("%s: the variables", r.preset)
			}
		}
	}
}
