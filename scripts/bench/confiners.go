package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// confiner is a way to run a command that may read the system, write its workspace and use no network.
type confiner struct {
	name    string
	command func(ws string, argv []string) []string
	missing string // why it can't be used here
}

const (
	byLandlock = "`toolguard exec --backend landlock`"
	byBwrap    = "`toolguard exec --backend bwrap`"
	byFirejail = "`toolguard exec --backend firejail`"
)

// confiners are all that the comparison measures; the first one is none. Their files are in dir.
func confiners(dir string) ([]confiner, error) {
	goroot := firstLine("go", "env", "GOROOT")
	policy, settings := filepath.Join(dir, "policy.toml"), filepath.Join(dir, "srt.json")
	if err := os.WriteFile(policy, fmt.Appendf(nil, policyText, goroot), 0o644); err != nil {
		return nil, err
	}
	err := os.WriteFile(settings, []byte(`{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}`), 0o644)
	if err != nil {
		return nil, err
	}
	before := func(prefix ...string) func(string, []string) []string {
		return func(ws string, argv []string) []string {
			line := slices.Clone(prefix)
			for i := range line {
				line[i] = strings.ReplaceAll(line[i], "$WS", ws)
			}
			return append(line, argv...)
		}
	}
	toolguard := func(backend string) func(string, []string) []string {
		return before(filepath.Join(dir, "toolguard"), "exec", "--quiet", "--policy", policy, "--workspace", "$WS", "--backend", backend, "--")
	}
	srt, noSrt := installed("srt", dir+"/node_modules/.bin/srt", "npm", "install", "--silent", "--prefix", dir, "@anthropic-ai/sandbox-runtime")
	landrun, noLandrun := installed("landrun", dir+"/landrun", "env", "GOBIN="+dir, "go", "install", "github.com/zouuup/landrun/cmd/landrun@latest")
	return []confiner{
		{"bare", before(), ""},
		{byLandlock, toolguard("landlock"), ""},
		{"landrun", before(landrun, "--best-effort", "--rox", "/usr,/bin,/lib,/lib64,/etc,"+goroot, "--ro", "/proc,/sys", "--rw", "/dev", "--rwx", "$WS",
			"--env", "PATH", "--env", "HOME", "--env", "TMPDIR", "--env", "GOCACHE", "--env", "GOPATH", "--env", "GOTOOLCHAIN", "--env", "GOFLAGS",
			"--env", "CGO_ENABLED", "--env", "npm_config_cache", "--env", "npm_config_update_notifier", "--env", "npm_config_audit",
			"--env", "npm_config_fund", "--"), noLandrun},
		{byBwrap, toolguard("bwrap"), ""},
		{"bubblewrap", before("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", "$WS", "$WS", "--unshare-all",
			"--die-with-parent", "--new-session"), ""},
		{"srt", before(srt, "--settings", settings, "--"), noSrt},
		{byFirejail, toolguard("firejail"), ""},
		{"firejail", before("firejail", "--quiet", "--noprofile", "--caps.drop=all", "--nonewprivs", "--seccomp", "--net=none", "--private", "--whitelist=$WS"), ""},
	}, nil
}

// policyText grants the workspace, and Go's tools.
const policyText = `version = 1
name = "peers"
extends = ["preset:git"]

[access]
default = { fs = "deny", net = "deny", env = "allow" }

[[access.fs]]
path = "."
read = true
write = true
execute = true

[[access.fs]]
path = %q
read = true
execute = true
`

// installed is the path of a program, which a command installs if PATH doesn't have it, or that there is none: why is shown, and isn't on the page.
func installed(name, path string, install ...string) (string, string) {
	if found, err := exec.LookPath(name); err == nil {
		return found, ""
	}
	if out, err := exec.Command(install[0], install[1:]...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: install %s: %v\n%s", name, err, out)
		return path, "not installed"
	}
	return path, ""
}

// versions are those of the programs that can be used here.
func (c *comparison) versions(toolguard string) []string {
	v := []string{firstLine(toolguard, "version")}
	for _, with := range c.confiners {
		line := with.command("", nil)
		if with.missing == "" && len(line) > 0 && !strings.Contains(with.name, "toolguard") {
			v = append(v, with.name+" "+strings.TrimPrefix(firstLine(line[0], "--version"), with.name+" "))
		}
	}
	return v
}

// table prints a row for each confiner, with a column for each workload.
func (c *comparison) table(out io.Writer, all []workload, results [][]result) {
	fmt.Fprint(out, "| command |")
	for _, w := range all {
		fmt.Fprintf(out, " %s (%d runs) |", w.name, w.runs)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---|", len(all)))
	for i, with := range c.confiners {
		fmt.Fprintf(out, "| %s |", with.name)
		for j := range all {
			if r := results[j][i]; r.fails != "" {
				fmt.Fprintf(out, " fails: %s |", r.fails)
			} else {
				fmt.Fprintf(out, " %s (%.2f×) |", show(r.median), over(r, results[j][0]))
			}
		}
		fmt.Fprintln(out)
	}
}
