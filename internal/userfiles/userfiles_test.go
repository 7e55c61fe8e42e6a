package userfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

// folders returns the folders of a new home, which is canonical.
func folders(t *testing.T) (home string, f Folders) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return home, Of(home, func(string) string { return "" })
}

func TestOf(t *testing.T) {
	for _, row := range []struct {
		home, config, state string
		want                Folders
	}{
		{"/h", "", "", Folders{"/h/.config/toolguard", "/h/.local/state/toolguard"}},
		{"/h", "/c", "/s/", Folders{"/c/toolguard", "/s/toolguard"}},
		{"/h", "c", "./s", Folders{"/h/.config/toolguard", "/h/.local/state/toolguard"}},
		{"", "/c", "", Folders{Config: "/c/toolguard"}},
	} {
		got := Of(row.home, func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": row.config, "XDG_STATE_HOME": row.state}[name]
		})
		if got != row.want {
			t.Errorf("%+v: %+v", row, got)
		}
	}
	f := Of("", os.Getenv)
	f.Config, f.State = "", ""
	_, err := f.WritePolicy("/x", nil, false)
	if _, of, found := f.FindPolicy("/x"); err != errNoHome || found != nil || of != "" || f.SaveRun(Run{}) != errNoHome || f.RemoveRun("/x") != nil || f.All() != nil {
		t.Error("without a home there is something")
	}
}

// TestFindPolicy checks that the policy of the nearest folder applies, whatever commands write in the folders, and that another
// user's doesn't.
func TestFindPolicy(t *testing.T) {
	home, f := folders(t)
	project := home + "/project"
	must(t, os.MkdirAll(project+"/sub/deep", 0o755))
	must(t, os.WriteFile(project+"/sub/.git", nil, 0o644))
	must(t, os.Symlink(project+"/sub", home+"/link"))
	find := func(dir, want, why string) {
		t.Helper()
		file, of, err := f.FindPolicy(dir)
		if of != want || (file != "") != (want != "") || (err != nil) != (why != "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %q is of %q, %v", dir, file, of, err)
		}
	}
	find(project, "", "")
	file, err := f.WritePolicy(project, []byte("one"), false)
	must(t, err)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || !strings.HasPrefix(filepath.Base(file), "project-") {
		t.Errorf("%s: %v", file, info)
	}
	for _, dir := range []string{project, project + "/sub", project + "/sub/deep", home + "/link"} {
		find(dir, project, "")
	}
	find(home, "", "")
	find(home+"/gone", "", "")
	if _, err := f.WritePolicy(project, []byte("two"), false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Error(err)
	}
	_, err = f.WritePolicy(project, []byte("three"), true)
	must(t, err)
	if text, _ := os.ReadFile(file); string(text) != "three" {
		t.Errorf("it has %q", text)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	for _, path := range []string{file, filepath.Dir(file), f.Config} {
		must(t, os.Chmod(path, 0o777))
		find(project, "", path+" is writable by others than its owner (mode 0777)")
		must(t, os.Chmod(path, 0o700))
	}
	_, err = f.WritePolicy(home, nil, false)
	must(t, err)
	find(home, "", "is in that folder")
	if os.Getuid() == 0 {
		must(t, os.Chown(file, 1, 1))
		find(project, "", "is owned by user 1, and toolguard runs as user 0")
		must(t, os.Chown(home, 1, 1))
		must(t, os.RemoveAll(home+"/.config"))
		if _, err := f.WritePolicy(project, nil, false); err == nil || !strings.Contains(err.Error(), "owned by user 1") {
			t.Errorf("root writes into another user's home: %v", err)
		}
		must(t, os.MkdirAll(home+"/root/toolguard/policies", 0o700))
		must(t, os.Symlink(home+"/root", home+"/.config"))
		must(t, os.Lchown(home+"/.config", 1, 1))
		if _, err := f.WritePolicy(project, nil, false); err == nil || !strings.Contains(err.Error(), "/.config is owned by user 1") {
			t.Errorf("root writes where another user's symlink leads: %v", err)
		}
	}
}

func TestRuns(t *testing.T) {
	home, f := folders(t)
	r := Run{Time: time.Now().Round(0), Argv: []string{"make"}, Workspace: home + "/w", Total: 3, Flags: Flags{Dir: home, Policies: []string{"/p.toml"}}}
	must(t, os.MkdirAll(r.Workspace+"/sub", 0o755))
	for i := range 3 * maxDenials {
		r.Denials = append(r.Denials, Denial{Resource: "fs", Target: fmt.Sprint("/x/", i), Extra: map[string]string{"why": "x"}, Count: 1})
	}
	must(t, f.RemoveRun(r.Workspace))
	must(t, f.SaveRun(r))
	got, err := f.LastRun(r.Workspace + "/sub")
	must(t, err)
	if len(got.Denials) != maxDenials || got.Denials[7].Target != "/x/7" || got.Total != 3 || !got.Time.Equal(r.Time) || got.Flags.Policies[0] != "/p.toml" {
		t.Errorf("%+v", got)
	}
	r.Denials[0].Suggest = strings.Repeat("x", maxRunBytes/2) // with the rest it's too long
	r.Denials[1].Suggest = r.Denials[0].Suggest
	must(t, f.SaveRun(r))
	if got, err = f.LastRun(r.Workspace); err != nil || len(got.Denials) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for name, mode := range map[string]os.FileMode{f.State: os.ModeDir | 0o700, f.runs(): os.ModeDir | 0o700, f.runFile(r.Workspace): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v", name, info)
		}
	}
	for text, why := range map[string]string{"{": "damaged", `{"version": 2}`: "another version", strings.Repeat("x", 3*maxRunBytes): "isn't a file of toolguard"} {
		must(t, os.WriteFile(f.runFile(r.Workspace), []byte(text), 0o600))
		if _, err := f.LastRun(r.Workspace); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	must(t, f.RemoveRun(r.Workspace))
	if got, err := f.LastRun(r.Workspace); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	r.Denials = r.Denials[2:4]
	for i := range maxWorkspaces + 3 {
		r.Workspace = fmt.Sprintf("%s/%d", home, i)
		must(t, f.SaveRun(r))
		must(t, os.Chtimes(f.runFile(r.Workspace), time.Time{}, time.Unix(int64(i), 0)))
	}
	if left, _ := os.ReadDir(f.runs()); len(left) != maxWorkspaces {
		t.Errorf("%d are kept", len(left))
	}
	if _, err := os.Stat(f.runFile(home + "/1")); err == nil {
		t.Error("an old one is kept")
	}
	must(t, os.Chmod(f.State, 0o770))
	if err := f.SaveRun(r); err == nil || !strings.Contains(err.Error(), "writable by others") {
		t.Error(err)
	}
}
