package hook

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// TestFiles checks which files and folders of hooks a session must not write.
func TestFiles(t *testing.T) {
	dir := childtest.TempDir(t)
	bin, hooks := filepath.Join(dir, "bin"), filepath.Join(dir, "a", "hooks")
	childtest.Must(t, os.MkdirAll(bin, 0o700))
	childtest.Must(t, os.MkdirAll(hooks, 0o700))
	for path, text := range map[string]string{
		filepath.Join(bin, "python3"):  "\x7fELF",
		filepath.Join(bin, "node"):     "\x7fELF",
		filepath.Join(hooks, "sh"):     "#!/bin/sh\n",
		filepath.Join(hooks, "py"):     "#!/usr/bin/env python3\n",
		filepath.Join(hooks, "js.js"):  "\n",
		filepath.Join(hooks, "target"): "#!/bin/sh\n",
	} {
		childtest.Must(t, os.WriteFile(path, []byte(text), 0o755))
	}
	childtest.Must(t, os.Symlink("target", filepath.Join(hooks, "link")))
	env := []string{"PATH=" + bin + ":/usr/bin:/bin"}
	under := func(base string, names ...string) (list []string) {
		for _, n := range names {
			list = append(list, filepath.Join(base, n))
		}
		return list
	}
	for _, x := range []struct {
		argv    []string
		files   []string
		modules []string // some of the folders; nil: none
	}{
		{[]string{"./sh"}, under(hooks, "sh"), nil},
		{[]string{"./link"}, under(hooks, "link", "target"), nil},
		{[]string{"sh", "sh"}, under(hooks, "sh"), nil},
		{[]string{"./py"}, append(under(hooks, "py"), under(bin, "python3")...), []string{hooks}},
		{[]string{"python3", "py"}, append(under(hooks, "py"), under(bin, "python3")...), []string{hooks}},
		{[]string{"python3", "-c", "import json"}, under(bin, "python3"), []string{hooks}},
		{[]string{"node", "js.js"}, append(under(hooks, "js.js"), under(bin, "node")...), under(dir, "a/hooks", "a/hooks/node_modules", "a/node_modules", "node_modules")},
		{[]string{"true"}, nil, nil},
		{[]string{"./missing"}, under(hooks, "missing"), nil},
	} {
		list := []*toolset.Hook{hookOf(hooks, x.argv...), {URL: "http://127.0.0.1/"}}
		files := Files(list, env)
		slices.Sort(files)
		slices.Sort(x.files)
		if !slices.Equal(files, x.files) {
			t.Errorf("%q: files %q, not %q", x.argv, files, x.files)
		}
		modules := ModulesOf(list, env)
		if x.modules == nil {
			if len(modules) > 0 {
				t.Errorf("%q: modules %+v", x.argv, modules)
			}
			continue
		}
		if len(modules) != 1 {
			t.Errorf("%q: modules %+v", x.argv, modules)
			continue
		}
		for _, folder := range x.modules {
			if !slices.Contains(modules[0].Folders, folder) {
				t.Errorf("%q: no modules from %s, but from %q", x.argv, folder, modules[0].Folders)
			}
		}
	}
}
