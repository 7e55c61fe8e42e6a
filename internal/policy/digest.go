package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// digest is a SHA-256 over what the policy means: layers, stances and rules with their resolved paths, in order. Not
// part of it: the names of files and rules, lines, what built-in files say of the private TMPDIR (which isn't there when
// a policy is only checked), and what toolguard itself never allows.
func (c *Compiled) digest() string {
	h := sha256.New()
	put := func(v ...any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("policy: digest: %v", err)) // only plain values get here
		}
		h.Write(b)
		io.WriteString(h, "\n")
	}
	put("toolguard policy", 1, bytesOf(c.Workspace))
	for _, l := range c.Layers {
		if l.Authority == Builtin {
			continue
		}
		put("layer", l.Authority.String(), l.Stance, l.Mode, l.Namespaces, l.TLSIntercept,
			sortedCopy(l.Capabilities), l.Syscalls.Profile, sortedCopy(l.Syscalls.Allow), sortedCopy(l.Syscalls.Deny))
		c.digestFS("fs", l.FS, put)
		c.digestFS("protect", l.Protect, put)
		for _, r := range l.Net.Rules() {
			n := r.Net
			put("net", n.Name, n.Suffix, n.Prefix.String(), n.Scheme, n.Port, n.Path, n.Methods == nil, sortedCopy(n.Methods), n.Proto, n.Listen, n.Allow)
		}
		for _, r := range l.Env.Rules() {
			put("env", bytesOf(r.Env.Name), r.Env.Read)
		}
		digestCommands(l.Commands, put)
	}
	m := c.Limits
	put("limits", m.Memory.N, m.Pids.N, m.CPU.N, m.IO.N, int64(m.WallTime.D), m.OpenFiles.N, m.FileSize.N)
	return hex.EncodeToString(h.Sum(nil))
}

// bytesOf makes JSON keep every byte of a string that may not be UTF-8.
func bytesOf(s string) []byte { return []byte(s) }

func sortedCopy(l []string) []string { return slices.Sorted(slices.Values(l)) }

func (c *Compiled) digestFS(kind string, t *FSTable, put func(...any)) {
	for _, r := range t.Rules() {
		if c.TmpDir != "" && r.Builtin() && within(r.FS.Path, c.TmpDir) {
			continue
		}
		put(kind, bytesOf(r.FS.Path), bytesOf(r.FS.Last), bytesOf(strings.Join(r.FS.Names, "/")), r.FS.Caps, r.FS.Unprotect)
	}
}

// digestCommands puts the rules in the order of their programs: only among rules for the same one does order matter.
func digestCommands(t *CommandTable, put func(...any)) {
	rules := slices.Clone(t.Rules())
	slices.SortStableFunc(rules, func(a, b *Rule) int {
		return strings.Compare(a.Command.Program+"\x00"+a.Command.Name, b.Command.Program+"\x00"+b.Command.Name)
	})
	for _, r := range rules {
		if t.by[r.Command.Program] != r && r.Command.Program != "" {
			continue // another rule for the same program comes later and wins
		}
		put("command", bytesOf(r.Command.Program), r.Command.HasArgs, r.Command.Args, r.Command.HasEnvs, sortedCopy(r.Command.Envs))
	}
}
