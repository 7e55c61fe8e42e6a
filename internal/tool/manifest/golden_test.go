package manifest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/manifest"
	"github.com/toolguard/toolguard/internal/tool/manifest/load"
)

var update = flag.Bool("update", false, "write the manifests in testdata/golden")

// machine generates the manifest of a policy in testdata/golden with a home and a workspace. from is the folder from which it's named.
func machine(t *testing.T, name, home, workspace, from string) []byte {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir+home)
	at := dir + workspace
	childtest.Must(t, os.CopyFS(at, os.DirFS("testdata/golden")))
	childtest.Must(t, os.MkdirAll(filepath.Join(at, from), 0o755))
	up, err := filepath.Rel(filepath.Join(at, from), at)
	childtest.Must(t, err)
	linkedWorktree(t, dir+"/repository/.git", at)
	m, err := load.Generate(policyload.Options{Files: []string{filepath.Join(up, name)}, Dir: filepath.Join(at, from), Workspace: up, Reads: true})
	childtest.Must(t, err)
	text, err := m.JSON()
	childtest.Must(t, err)
	return text
}

// linkedWorktree makes a folder a linked worktree of a repository, of which the built-in default policy grants a part.
func linkedWorktree(t *testing.T, repository, at string) {
	t.Helper()
	own := repository + "/worktrees/w"
	for _, dir := range []string{repository + "/objects", repository + "/refs", own} {
		childtest.Must(t, os.MkdirAll(dir, 0o755))
	}
	childtest.Must(t, os.WriteFile(own+"/gitdir", []byte(at+"/.git\n"), 0o600))
	childtest.Must(t, os.WriteFile(at+"/.git", []byte("gitdir: "+own+"\n"), 0o600))
}

// The manifests of the policies in testdata/golden are those next to them. They're the same on two machines, and from two folders.
func TestGolden(t *testing.T) {
	policies, err := filepath.Glob("testdata/golden/*.toml")
	childtest.Must(t, err)
	if len(policies) < 7 {
		t.Errorf("only %d policies", len(policies))
	}
	nothing := machine(t, "nothing.toml", "/home/a", "/home/a/w", ".")
	for _, file := range policies {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".toml"), func(t *testing.T) {
			text := machine(t, name, "/home/a", "/home/a/w", ".")
			for variable, value := range map[string]string{"USER": "b", "PATH": "/nowhere", "TMPDIR": t.TempDir(), "XDG_CONFIG_HOME": "/nowhere"} {
				t.Setenv(variable, value)
			}
			if other := machine(t, name, "/root", "/srv/some/where", "sub/folder"); !bytes.Equal(text, other) {
				t.Errorf("on another machine it's\n%s\nand not\n%s", other, text)
			}
			_, err := manifest.Parse(text)
			childtest.Must(t, err)
			got := text
			if name != "nothing.toml" {
				got = withoutBuiltin(t, text, nothing)
			}
			compareGolden(t, strings.TrimSuffix(file, ".toml")+".json", got)
		})
	}
}

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		childtest.Must(t, os.WriteFile(file, got, 0o644))
	}
	want := childtest.ReadFile(t, file)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// withoutBuiltin leaves out the part of the layer and of the sets that the manifest of an empty policy has, too.
func withoutBuiltin(t *testing.T, text, nothing []byte) []byte {
	t.Helper()
	var full, builtin map[string]any
	childtest.Must(t, json.Unmarshal(text, &full))
	childtest.Must(t, json.Unmarshal(nothing, &builtin))
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		for _, key := range []string{"layer", "sets"} {
			if head := `  "` + key + `": `; bytes.HasPrefix(line, []byte(head)) {
				own, err := json.MarshalIndent(without(full[key], builtin[key]), "  ", "  ")
				childtest.Must(t, err)
				line = append(append([]byte(head), own...), ",\n"...)
			}
		}
		b.Write(line)
	}
	return b.Bytes()
}

// without returns the entries of v that aren't those of another value.
func without(v, other any) any {
	switch v := v.(type) {
	case map[string]any:
		was, _ := other.(map[string]any)
		out := map[string]any{}
		for k, x := range v {
			if old, ok := was[k]; !ok {
				out[k] = x
			} else if !reflect.DeepEqual(x, old) {
				out[k] = without(x, old)
			}
		}
		return out
	case []any:
		was, _ := other.([]any)
		out := []any{}
		for _, x := range v {
			if !slices.ContainsFunc(was, func(old any) bool { return reflect.DeepEqual(old, x) }) {
				out = append(out, x)
			}
		}
		return out
	}
	return v
}
