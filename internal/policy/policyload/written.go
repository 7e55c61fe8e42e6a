package policyload

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// writtenPath is the PATH for policies that are read as they're written.
const writtenPath = "/usr/bin:/bin"

// Written reads the policy that the options name, and sets Document. The result is the same on every machine that has its files: nothing is
// detected, no symlink is followed, and the machine's own policies, PATH and terminal have no effect.
func (o *Options) Written() (*policy.Source, error) {
	dir, err := o.Folder()
	if err != nil {
		return nil, err
	}
	r := o.selection(dir)
	r.Policies, r.NoDetect, r.Home, r.Path = o.Files, true, Home(), writtenPath
	src, doc, err := policyfile.Load(r, writtenFiles{o.system()})
	if err != nil {
		return nil, err
	}
	o.Document = doc
	return src, nil
}

// writtenFiles has the policy's files alone, each at the path by which it's named.
type writtenFiles struct{ policyfile.Files }

// Read reads no .git: the repository of a linked worktree is one of this machine.
func (w writtenFiles) Read(path string, limit int) ([]byte, error) {
	if filepath.Base(path) == ".git" {
		return nil, fs.ErrNotExist
	}
	return w.Files.Read(path, limit)
}

func (writtenFiles) Real(path string) (string, error) { return filepath.Clean(path), nil }

func (writtenFiles) ReadTrusted(string, int) ([]byte, error) { return nil, fs.ErrNotExist }

func (writtenFiles) List(string) ([]string, error) { return nil, fs.ErrNotExist }

// Enter is a command rule with the tool whose policy applies from its execution on.
type Enter struct {
	Table   string // the pattern of the tool's table that has the rule; "" for the policy's own
	Command string
	Tool    string
	At      policy.Position
}

// Enters returns the transitions of a document's session files. A later file's rule for the same command replaces an earlier one's.
func Enters(doc *policyfile.Document) (all []Enter) {
	add := func(table string, a *policyfile.Access) {
		if a == nil {
			return
		}
		for _, c := range a.Commands.Items {
			all = slices.DeleteFunc(all, func(e Enter) bool { return e.Table == table && e.Command == c.Name })
			if tool, ok := strings.CutPrefix(c.Enter.S, "tool:"); ok {
				all = append(all, Enter{table, c.Name, tool, c.Enter.Position})
			}
		}
	}
	for _, f := range doc.Files {
		if f.Authority != policy.Session {
			continue
		}
		add("", f.Policy.Access)
		for _, pattern := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
			add(pattern, f.Policy.Tools[pattern].Access)
		}
	}
	return all
}

// AccessTables returns the patterns of the session's tables of tools that have access.
func AccessTables(doc *policyfile.Document) (patterns []string) {
	for _, f := range doc.Files {
		for _, pattern := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
			if f.Authority == policy.Session && f.Policy.Tools[pattern].Access != nil && !slices.Contains(patterns, pattern) {
				patterns = append(patterns, pattern)
			}
		}
	}
	return patterns
}
