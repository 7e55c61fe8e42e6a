package policyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Limits of the files that a file may include.
const (
	maxDepth = 16  // files that extend each other
	maxFiles = 200 // of one load
)

// Request selects the policies, and the session that they apply to.
type Request struct {
	Policies []string // files, or "preset:NAME", in order; none means the default policy
	HostDir  string   // the folder of the host's policies; "" for none

	Tool     string // the tool whose own access applies; "" for none
	Agent    string // the name of the agent, for the layers of single agents, and so on
	Profile  string
	Provider string // PROVIDER or PROVIDER/MODEL
	Group    string
	Depth    int // of sub-agents; 0 is the agent itself

	Environment        string // chooses the environment of the session's files; "" for their own choice
	DefaultEnvironment string // the same, where Environment is "" and for files that have environments alone

	Workspace string   // overrides the files' workspace; relative to Dir
	NeverHome []string // one of these homes, or a folder around it, is the workspace only where a file or Workspace names it
	Limits    string   // further limits, "memory=1GiB,pids=64"; they only narrow

	Command     string // the command, as it's named; "" for none
	NoDetect    bool   // the built-in default policy is the same for every workspace, command and PATH
	AddDetected bool   // detected presets are added to Policies, which override them

	System   string // that the policy is for, as GOOS: built-in files have rules for darwin; "" is any other
	Dir      string // the current folder, absolute
	Home     string // the invoking user's home, absolute
	Path     string // the session's PATH
	TmpDir   string // the session's private TMPDIR; "" when there is none
	Terminal string // the session's own terminal device; "" when there is none
	HideTTY  bool   // /dev/tty isn't the session's: it leads to a terminal where a user types for other programs
}

// Document is every file that was read, as written.
type Document struct {
	Files []*File // the host's first, each after those that it extends
}

// File is one policy file.
type File struct {
	Name      string // as it appears in positions
	Path      string // absolute; "" for a built-in one
	Authority policy.Authority
	Policy    *Policy
}

// Load reads the policies that req names and everything they extend, and merges them. The error is policy.Errors.
func Load(req Request, files Files) (*policy.Source, *Document, error) {
	l := &loader{req: req, files: files, seen: map[string]bool{}}
	l.host()
	l.seen = map[string]bool{} // the session may extend what the host does
	for _, name := range req.Policies {
		l.open(name, name, policy.Session, nil)
	}
	if req.Environment != "" && !l.environment && len(l.errs) == 0 {
		l.fail(policy.Position{File: "--environment"}, "", "no policy has an environment %s", tomltree.Quote(req.Environment))
	}
	if err := l.errs.Err(); err != nil {
		return nil, nil, err
	}
	src := l.source()
	if err := l.errs.Err(); err != nil {
		return nil, nil, err
	}
	return src, &l.doc, nil
}

// loader is the state of one Load.
type loader struct {
	req         Request
	files       Files
	doc         Document
	environment bool            // a file has the environment of the request
	seen        map[string]bool // files of the current authority that were read, by absolute path or preset name
	git         policy.Repository

	toolLayers map[policy.Authority]*toolset.Layer // by author; nil if they weren't needed yet

	workspaceDir string // canonical
	errs         policy.Errors
}

func (l *loader) fail(at policy.Position, hint, format string, args ...any) {
	l.errs = append(l.errs, &policy.Error{Position: at, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// host reads the host's policies in the order of their names. An unreadable file is an error: otherwise a process that
// can hide a file could lift its rules.
func (l *loader) host() {
	if l.req.HostDir == "" {
		return
	}
	names, err := l.files.List(l.req.HostDir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		hint := "the host's policies must be owned by root and not writable by other users"
		if errors.Is(err, fs.ErrPermission) {
			hint = fmt.Sprintf("everybody must be able to read the host's policies: chmod 755 %s %s", filepath.Dir(l.req.HostDir), l.req.HostDir)
		}
		l.fail(policy.Position{File: l.req.HostDir}, hint,
			"the host's policies can't be used: %s", reason(err))
		return
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".toml") && !strings.HasPrefix(name, ".") {
			path := filepath.Join(l.req.HostDir, name)
			l.open(path, path, policy.Host, nil)
		}
	}
}

// step is a file in the chain from the requested file to the current one.
type step struct {
	file string // absolute, or a preset's name
	name string // as shown
	at   *Text  // the entry of extends that named it; nil for the first
	from *step
}

// open reads a file and what it extends, if it wasn't read yet. shown is its name in positions.
func (l *loader) open(name, shown string, authority policy.Authority, from *step) {
	l.openEntry(name, shown, authority, nil, from)
}

func (l *loader) openEntry(name, shown string, authority policy.Authority, entry *Text, from *step) {
	position := policy.Position{File: shown}
	if entry != nil {
		position = entry.Position
	}
	if name == "" {
		l.fail(policy.Position{File: "--policy"}, "", "the name of the policy is empty")
		return
	}
	if preset, ok := strings.CutPrefix(name, presetPrefix); ok {
		l.openPreset(preset, authority, position)
		return
	}
	s := &step{absolute(name, l.req.Dir), shown, entry, from}
	if l.cyclic(s, position) || l.seen[s.file] {
		return
	}
	if l.seen[s.file] = true; len(l.seen) > maxFiles {
		l.fail(position, "", "more than %d policy files", maxFiles)
		return
	}
	p := l.read(s, authority, position)
	if p == nil {
		return
	}
	for i := range p.Extends {
		if p.Extends[i].S != "" { // else it was reported
			l.extend(&p.Extends[i], authority, s)
		}
	}
	l.doc.Files = append(l.doc.Files, &File{Name: shown, Path: s.file, Authority: authority, Policy: p})
	l.openEnvironment(p, authority, s)
}

// openEnvironment reads the files of the chosen environment. A request doesn't choose the environment of the host's files: a user
// could otherwise choose the loosest one.
func (l *loader) openEnvironment(p *Policy, authority policy.Authority, s *step) {
	name, at := p.Environment.S, p.Environment.Position
	switch {
	case authority != policy.Session:
	case l.req.Environment != "":
		name, at = l.req.Environment, policy.Position{File: "--environment"}
	case l.req.DefaultEnvironment != "" && p.Environments != nil:
		name, at = l.req.DefaultEnvironment, policy.Position{File: "TOOLGUARD_ENVIRONMENT"}
	}
	names := slices.Sorted(maps.Keys(p.Environments))
	files, known := p.Environments[name]
	switch {
	case known:
		l.environment = true
	case name == "" && p.Environments == nil:
	case name == "":
		l.fail(p.Position, "choose one: --environment "+orNames(names)+", or environment = \"…\" in the file", "the policy has environments, and none is chosen")
	case p.Environments == nil && p.Environment.S != "":
		l.fail(p.Environment.Position, "add [environments] with its files", "unknown environment %s", tomltree.Quote(p.Environment.S))
	case p.Environments != nil:
		l.fail(at, nearest.Hint(name, names, "there are "), "unknown environment %s", tomltree.Quote(name))
	}
	for i := range files {
		if files[i].S != "" { // else it was reported
			l.extend(&files[i], authority, s)
		}
	}
}

func orNames(names []string) string { return strings.Join(names, " or ") }

// extend opens one entry of extends, relative to the folder of the file that has it.
func (l *loader) extend(e *Text, authority policy.Authority, s *step) {
	if strings.HasPrefix(e.S, presetPrefix) || filepath.IsAbs(e.S) {
		l.openEntry(e.S, e.S, authority, e, s)
		return
	}
	l.openEntry(filepath.Join(filepath.Dir(s.file), e.S), filepath.Join(filepath.Dir(s.name), e.S), authority, e, s)
}

// cyclic reports a file that extends itself through other files, and a chain that is too long.
func (l *loader) cyclic(s *step, position policy.Position) bool {
	chain := s.name
	depth := 0
	for at := s.from; at != nil; at = at.from {
		chain = at.name + " -> " + chain
		if depth++; at.file == s.file {
			l.fail(position, "remove one of them from extends", "a cycle of extends: %s", chain)
			return true
		}
	}
	if depth > maxDepth {
		l.fail(position, "", "extends goes through more than %d files", maxDepth)
		return true
	}
	return false
}

func (l *loader) openPreset(name string, authority policy.Authority, position policy.Position) {
	shown := presetPrefix + name
	if !slices.Contains(presets, name) {
		l.fail(position, nearest.Hint(name, presets, "there are "), "unknown preset %s", tomltree.Quote(name))
		return
	}
	if !l.seen[shown] {
		l.seen[shown] = true
		l.doc.Files = append(l.doc.Files, &File{Name: shown, Authority: authority, Policy: builtinPolicy("preset_" + name)})
	}
}

// read reads and decodes one file; nil after a mistake.
func (l *loader) read(s *step, authority policy.Authority, position policy.Position) *Policy {
	get := l.files.Read
	if authority == policy.Host {
		get = l.files.ReadTrusted
	}
	src, err := get(s.file, tomltree.MaxSize+1)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) && slices.Contains(presets, strings.TrimSuffix(filepath.Base(s.file), ".toml")) {
			hint = "the built-in one is " + presetPrefix + strings.TrimSuffix(filepath.Base(s.file), ".toml")
		}
		l.fail(position, hint, "can't read policy %s: %s", tomltree.Quote(s.name), reason(err))
		return nil
	}
	p, errs := decodePolicy(s.name, src)
	l.errs = append(l.errs, errs...)
	return p // also after errors: those of the files that it extends are reported too
}

// reason is an error without the path, which the message has already.
func reason(err error) string {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.As(err, &pe):
		return pe.Err.Error()
	}
	return err.Error()
}
