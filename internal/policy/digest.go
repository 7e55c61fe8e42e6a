package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
)

// digest returns a SHA-256 over the meaning of the policy: layers, default actions and rules with their resolved paths, in order, and
// aliases. It leaves out names of files and rules, lines, built-in rules for the private TMPDIR (which doesn't exist when a policy is only
// checked), and the Builtin layer.
func (c *Compiled) digest() string {
	d := digester{h: sha256.New()}
	d.str("toolguard policy").num(1).str(c.Workspace)
	for _, l := range c.Layers {
		if l.Authority != Builtin {
			d.layer(l, c.TmpDir)
		}
	}
	for _, a := range c.Aliases {
		d.str("alias").str(a.From).str(a.To).num(uint64(a.Depth)).list(a.Holes)
	}
	for _, k := range c.Links { // not the file's identity, which changes with each new version of the file
		d.str("link").num(uint64(k.Layer)).str(c.Rules[k.Rule].FS.Path)
	}
	m := c.Limits
	d.str("limits").num(m.Memory.N).num(m.Pids.N).num(m.CPU.N).num(m.IO.N).num(uint64(m.WallTime.D)).num(m.OpenFiles.N).num(m.FileSize.N)
	if c.Audit.Exec {
		d.str("audit exec")
	}
	d.flush()
	return hex.EncodeToString(d.h.Sum(nil))
}

// digester writes records into a hash: a keyword that determines the number and kinds of the values, then the values. The length precedes
// each string and list, so that two different policies never produce the same bytes.
type digester struct {
	h   hash.Hash
	buf []byte
}

func (d *digester) flush() {
	d.h.Write(d.buf) // a hash never fails
	d.buf = d.buf[:0]
}

func (d *digester) num(n uint64) *digester {
	d.buf = binary.AppendUvarint(d.buf, n)
	return d
}

func (d *digester) flag(on bool) *digester {
	if on {
		return d.num(1)
	}
	return d.num(0)
}

func (d *digester) str(s string) *digester {
	d.num(uint64(len(s)))
	d.buf = append(d.buf, s...)
	return d
}

func (d *digester) list(l []string) *digester {
	d.num(uint64(len(l)))
	for _, s := range l {
		d.str(s)
	}
	return d
}

// layer leaves out toolguard's own rules for the TMPDIR, which differs by session.
func (d *digester) layer(l *Layer, tmpDir string) {
	d.str("layer").str(l.Authority.String())
	for _, s := range l.Defaults {
		d.num(uint64(s))
	}
	d.num(uint64(l.Mode)).num(uint64(l.SecretsMode)).flag(l.Namespaces).flag(l.TLSIntercept).list(sortedCopy(l.Capabilities))
	d.str(l.Syscalls.Profile).list(sortedCopy(l.Syscalls.Allow)).list(sortedCopy(l.Syscalls.Deny))
	d.fs("fs", l.FS, tmpDir)
	d.fs("protect", l.Protect, tmpDir)
	d.fs("secrets", l.Secrets, tmpDir)
	for _, r := range l.Net.Rules() {
		n := r.Net
		d.str("net").str(n.Name).str(n.Suffix).str(n.Prefix.String()).str(n.Scheme).num(uint64(n.Port)).list(n.Path)
		d.flag(n.Methods == nil).list(sortedCopy(n.Methods)).str(n.Proto).flag(n.Listen).flag(n.Allow)
	}
	for _, r := range l.Env.Rules() {
		d.str("env").str(r.Env.Name).flag(r.Env.Read)
	}
	d.commands(l.Commands)
	d.flush()
}

func (d *digester) fs(kind string, t *FSTable, tmpDir string) {
	for _, r := range t.Rules() {
		if r.Builtin() && tmpDir != "" && r.FS.Path == tmpDir && r.FS.Last == "" {
			continue
		}
		d.str(kind).str(r.FS.Path).str(r.FS.Last).list(r.FS.Names).num(uint64(r.FS.Caps)).flag(r.FS.Unprotect).flag(r.FS.Secret)
		d.flush()
	}
}

// commands puts the rules in the order of their programs: only among rules for the same one does order matter.
func (d *digester) commands(t *CommandTable) {
	rules := slices.Clone(t.Rules())
	slices.SortStableFunc(rules, func(a, b *Rule) int {
		if order := strings.Compare(a.Command.Program, b.Command.Program); order != 0 || a.Command.Program != "" {
			return order
		}
		return strings.Compare(a.Command.Name, b.Command.Name)
	})
	for _, r := range rules {
		if r.Command.Program != "" && !t.Decides(r) {
			continue // a later rule for the same program wins
		}
		d.str("command").str(r.Command.Program).flag(r.Command.HasArgs).num(uint64(len(r.Command.Args)))
		if !r.Command.AnyArgs() {
			d.list(sortedCopy(r.Command.Called()))
		}
		for _, args := range r.Command.Args {
			d.list(args)
		}
		d.flag(r.Command.HasEnvs).list(sortedCopy(r.Command.Envs))
	}
}

func sortedCopy(l []string) []string { return slices.Sorted(slices.Values(l)) }
