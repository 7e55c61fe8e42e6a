package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Files returns the files that the hooks' programs execute, apart from those of the system. A session that could write one could change it between
// Check and its start, and so run anything outside.
func Files(hooks []*toolset.Hook, env []string) (files []string) {
	for _, h := range hooks {
		named, bound := executed(h, env)
		for _, path := range append(named, bound...) {
			if !isSystem(path) && !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	return files
}

// isSystem reports whether a path is in a folder of the operating system.
func isSystem(path string) bool {
	return slices.ContainsFunc([]string{"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/nix/store/"}, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

// executed returns the path of a hook's program, and those of all files that it's known to execute.
func executed(h *toolset.Hook, env []string) (named, bound []string) {
	if h.URL != "" {
		return nil, nil
	}
	file, err := find(h.Command[0], h.Dir, env)
	if err != nil {
		return nil, nil // it never runs
	}
	b, err := bind(h, env)
	if err != nil {
		return []string{file}, nil
	}
	if b.Exe != nil {
		bound = append(bound, b.Exe.Path)
	}
	for _, f := range b.Files {
		bound = append(bound, f.Path)
	}
	return []string{file}, bound
}

// Modules are the folders from which the interpreter of a hook loads code that no argument names.
type Modules struct {
	Hook        string // its name
	Interpreter string
	Folders     []string
}

// The interpreters that load modules from the folder of the script, or the current one. Versions follow the names.
var (
	loaders     = append([]string{"python", "pypy", "ipython", "ruby", "jruby", "php", "lua", "luajit", "julia"}, nodeLoaders...)
	nodeLoaders = []string{"node", "deno", "bun", "tsx", "ts-node"} // they search in all folders above, too
)

// ModulesOf returns the folders of the modules of hooks. They aren't compared before a run, so the session must not be able to write there.
func ModulesOf(hooks []*toolset.Hook, env []string) (list []Modules) {
	for _, h := range hooks {
		named, bound := executed(h, env)
		i := slices.IndexFunc(bound, func(path string) bool { return isOf(loaders, path) })
		if i < 0 {
			continue
		}
		m := Modules{Hook: Name(h), Interpreter: filepath.Base(bound[i])}
		isScript := func(path string) bool { return !isOf(loaders, path) && filepath.Base(path) != "env" }
		for _, path := range append(named, bound...) {
			if isScript(path) {
				m.add(filepath.Dir(path))
			}
		}
		if m.Folders == nil { // code in the arguments, or a module
			m.add(h.Dir)
		}
		if isOf(nodeLoaders, bound[i]) {
			for _, dir := range m.Folders {
				for ; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
					m.add(filepath.Join(dir, "node_modules"))
				}
			}
		}
		list = append(list, m)
	}
	return list
}

func (m *Modules) add(dir string) {
	if !slices.Contains(m.Folders, dir) {
		m.Folders = append(m.Folders, dir)
	}
}

// isOf reports whether a path is that of one of some interpreters, of any version.
func isOf(names []string, path string) bool {
	return slices.Contains(names, strings.TrimRight(filepath.Base(path), "0123456789.-"))
}
