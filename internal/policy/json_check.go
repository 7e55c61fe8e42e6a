package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy/envname"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// writable returns an error for a name that JSON can't represent.
func (w *wire) writable() error {
	names := append([]string{w.Workspace, w.TmpDir, w.Path}, w.Files...)
	for _, a := range w.Aliases {
		names = append(append(names, a.From, a.To), a.Holes...)
	}
	for _, r := range w.Rules {
		if r.FS != nil {
			names = append(names, r.FS.Path)
		}
		if r.Command != nil {
			names = append(names, r.Command.Program, r.Command.File)
		}
	}
	for _, n := range names {
		if !utf8.ValidString(n) {
			return fmt.Errorf("%q isn't UTF-8, and a policy that names it can't be passed on", n)
		}
	}
	return nil
}

var errTables = errors.New("its tables don't fit its rules")

// check rejects a policy that Compile can't have made, in every respect that other code relies on.
func (w *wire) check() error {
	if !fspath.IsCanonical(w.Workspace) || w.TmpDir != "" && !fspath.IsCanonical(w.TmpDir) {
		return fmt.Errorf("the workspace %q or the TMPDIR %q isn't a canonical path", w.Workspace, w.TmpDir)
	}
	for _, r := range w.Rules {
		if r == nil || r.Authority >= NumAuthorities || r.Resource >= NumResources {
			return errTables
		}
	}
	next := 0
	for i := range w.Layers {
		l := &w.Layers[i]
		if l.Authority >= NumAuthorities || l.Mode > ProtectOn || l.SecretsMode > ProtectOn {
			return errTables
		}
		for _, t := range []struct {
			r    *run
			kind Resource
		}{{l.FS, FS}, {l.Protect, FS}, {l.Secrets, FS}, {l.Net, Net}, {l.Env, Env}, {l.Commands, Commands}} {
			if err := w.checkRun(t.r, t.kind, &next); err != nil {
				return err
			}
		}
		for r, has := range [NumResources]bool{l.FS != nil, l.Net != nil, l.Env != nil, l.Commands != nil} {
			if l.Defaults[r] > Allow || has != (l.Defaults[r] != Undeclared) {
				return errTables
			}
		}
	}
	if next != len(w.Rules) {
		return errTables
	}
	return errors.Join(w.checkAliasesAndLinks(), w.checkTexts())
}

// maxText bounds the texts of a policy that each event of a session may contain: its name, the id of a rule, and a file.
const maxText = 8 << 10

// maxListed bounds the names of files and PATH together, which the list of sessions contains for each session.
const maxListed = 64 << 10

// checkTexts rejects texts longer than any file's name: each event would be as long.
func (w *wire) checkTexts() error {
	size := len(w.Path)
	for _, f := range w.Files {
		size += len(f)
	}
	if size > maxListed {
		return fmt.Errorf("PATH and the names of the policy's files have %d bytes, more than %d", size, maxListed)
	}
	texts := []string{w.Name, w.Workspace, w.TmpDir, w.Audit.Position.File}
	for _, p := range w.Limits.Positions() {
		texts = append(texts, p.File)
	}
	for i := range w.Layers {
		texts = append(texts, w.Layers[i].Syscalls.Position.File)
	}
	for _, r := range w.Rules {
		texts = append(texts, r.ID, r.Position.File)
	}
	for _, t := range texts {
		if len(t) > maxText {
			return fmt.Errorf("the policy, a rule or its file has a name of %d bytes, more than %d: it begins with %.50q", len(t), maxText, t)
		}
	}
	return nil
}

// checkAliasesAndLinks checks the paths of aliases and the rules of hard links.
func (w *wire) checkAliasesAndLinks() error {
	for _, a := range w.Aliases {
		if !fspath.IsCanonical(a.From) || !fspath.IsCanonical(a.To) {
			return fmt.Errorf("%q or %q isn't a canonical path", a.From, a.To)
		}
		for _, hole := range a.Holes {
			if !fspath.IsCanonical(hole) || hole == "/" {
				return fmt.Errorf("%q isn't the rest of a canonical path", hole)
			}
		}
	}
	for _, k := range w.Links {
		if k.Layer < 0 || int(k.Layer) >= len(w.Layers) {
			return errTables
		}
		if t := w.Layers[k.Layer].FS; t == nil || int(k.Rule) < t.First || int(k.Rule) >= t.First+t.N {
			return errTables
		}
	}
	return nil
}

// checkRun checks a table, which must begin where the one before ended.
func (w *wire) checkRun(r *run, kind Resource, next *int) error {
	if r == nil || *r == (run{}) {
		return nil
	}
	if r.First != *next || r.N <= 0 || r.N > len(w.Rules)-r.First {
		return errTables
	}
	*next += r.N
	for _, rule := range w.rules(r) {
		has := [NumResources]bool{rule.FS != nil, rule.Net != nil, rule.Env != nil, rule.Command != nil}
		want := [NumResources]bool{}
		want[kind] = true
		if rule.Resource != kind || has != want {
			return errTables
		}
		if err := rule.check(); err != nil {
			return fmt.Errorf("%s: %w", rule.ID, err)
		}
	}
	return nil
}

func (r *Rule) check() error {
	switch {
	case r.FS != nil:
		return r.FS.check()
	case r.Env != nil:
		return envname.Check(r.Env.Name)
	case r.Command != nil && r.Command.Program != "" && !fspath.IsCanonical(r.Command.Program):
		return fmt.Errorf("%q isn't a canonical path", r.Command.Program)
	case r.Command != nil && !IsProgramName(r.Command.Name):
		return fmt.Errorf("%.100q isn't the name of a program", r.Command.Name)
	}
	return nil
}

func (f *CompiledFS) check() error {
	if !fspath.IsCanonical(f.Path) || f.Caps&^AllCaps != 0 {
		return fmt.Errorf("%q isn't a canonical path", f.Path)
	}
	if f.Last == "" {
		return nil
	}
	p, err := fspath.ParsePattern(strings.Join(append([]string{"**", f.Last}, f.Names...), "/"))
	if err == nil && (p.Last != f.Last || !slices.Equal(p.Names, f.Names)) {
		err = fmt.Errorf("%q is no pattern", f.Written)
	}
	return err
}
