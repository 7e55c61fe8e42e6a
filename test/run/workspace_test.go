//go:build linux

package run

import (
	"path/filepath"
	"testing"
)

// A command that removes its workspace's marker moves the next start's workspace up: to a parent folder that
// looks like a project, but never to the home. --workspace names it once and for all.
func TestWorkspaceMarkers(t *testing.T) {
	for _, u := range users() {
		t.Run(u.Name, func(t *testing.T) {
			for _, row := range []struct {
				name, marked string // the folder that looks like a project, too; relative to the home
				flags        []string
				wider        bool
			}{
				{"home", ".", nil, false},
				{"around", "mono", nil, true}, // a stated gap
				{"named", "mono", []string{"--workspace", "."}, false},
			} {
				t.Run(row.name, func(t *testing.T) {
					p := newFixture(t, u)
					p.workspace = filepath.Join(p.home, "mono", "part")
					outer, err := filepath.Rel(p.workspace, filepath.Join(p.home, row.marked))
					must(t, err)
					p.write(t, "go.mod", "")
					p.write(t, filepath.Join(outer, "go.mod"), "")
					p.write(t, filepath.Join(outer, "secret"), "s")
					secret := filepath.Join(p.home, row.marked, "secret")
					reads := func() bool { return run(t, p.confined(row.flags, "cat", secret)).stdout == "s" }
					if reads() {
						t.Fatal("it's granted from the start")
					}
					if got := run(t, p.confined(row.flags, "mv", "go.mod", "other")); got.code != 0 {
						t.Fatalf("%+v", got)
					}
					if reads() != row.wider {
						t.Errorf("the next command reads files around the workspace: %v", !row.wider)
					}
				})
			}
		})
	}
}
