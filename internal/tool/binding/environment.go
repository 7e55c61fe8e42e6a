package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// ownVariables change by themselves from one session, terminal or login to the next, and name no code. The working directory is bound itself.
var ownVariables = map[string]bool{
	"_": true, "SHLVL": true, "PWD": true, "OLDPWD": true, "TMPDIR": true, "TMUX_TMPDIR": true, "COLUMNS": true, "LINES": true, "WINDOWID": true,
	"TERM_SESSION_ID": true, "TMUX": true, "TMUX_PANE": true, "STY": true, "INVOCATION_ID": true, "JOURNAL_STREAM": true, "SYSTEMD_EXEC_PID": true,
	"XDG_SESSION_ID": true, "SSH_CLIENT": true, "SSH_CONNECTION": true, "SSH_TTY": true, "SSH_AUTH_SOCK": true, "SSH_AGENT_PID": true,
}

// envDigest is the SHA-256 of the sorted environment, each NAME=VALUE with a NUL byte after it: without ownVariables and TOOLGUARD_*.
func envDigest(env []string) string {
	sorted := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return ownVariables[name] || strings.HasPrefix(name, "TOOLGUARD_")
	})
	slices.Sort(sorted)
	h := sha256.New()
	for _, kv := range sorted {
		h.Write([]byte(kv + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// loadingVariables make programs execute files that no argument names, or others than it seems.
var loadingVariables = []string{
	"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "CDPATH", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "PYTHONSTARTUP", "LUA_INIT",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "PHPRC", "PHP_INI_SCAN_DIR", "DOTNET_STARTUP_HOOKS",
}

// variable returns the value of a variable. If it's given twice, programs disagree about which one counts.
func (c *collector) variable(name string) string {
	value, found := "", false
	for _, kv := range c.call.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			if found && v != value {
				c.doubt("the environment has " + name + " twice")
			}
			if !found {
				value, found = v, true
			}
		}
	}
	return value
}

// environment doubts an environment because of which programs execute other files.
func (c *collector) environment() {
	for _, name := range loadingVariables {
		if c.variable(name) != "" {
			c.doubt("the environment has " + name + ", which makes programs execute other files")
		}
	}
}
