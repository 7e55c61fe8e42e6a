package sandboxexec

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec/substitute"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// program returns the path of a program of this machine.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCanaryRuns runs the canary under a program that denies, and under others.
func TestCanaryRuns(t *testing.T) {
	cat, dir := program(t, "cat"), t.TempDir()
	for mode, want := range map[string]string{
		substitute.Denies:  "",
		substitute.Rejects: "",
		substitute.Open:    "doesn't deny",
		substitute.Outer:   "outer sandbox",
	} {
		err := Canary(substitute.Write(t, mode), cat, dir)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
		if errors.Is(err, ErrOuter) != (mode == substitute.Outer) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if err := Canary(filepath.Join(dir, "none"), cat, dir); err == nil {
		t.Error("no program, and no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// TestRealCanary runs it under macOS's own sandbox.
func TestRealCanary(t *testing.T) {
	if runtime.GOOS != "darwin" {
		t.Skip("needs macOS")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := Canary(Program, "/bin/cat", dir); err != nil {
		t.Error(err)
	}
	if err := Try(Program, &darwin.Profile{Text: "(version 1)(allow default)(deny no-such-operation)"}, "", "/usr/bin/true"); err == nil {
		t.Error("a profile with an unknown operation is accepted")
	}
}

func TestJudgeCanary(t *testing.T) {
	for _, x := range []struct {
		result
		want string
	}{
		{result{1, "A", "cat: /d: Operation not permitted"}, ""},
		{result{0, "A", ""}, "no error was reported"},
		{result{0, "AD", ""}, "doesn't deny"},
		{result{1, "D", ""}, "doesn't deny"},
		{result{1, "", "cat: /a: Operation not permitted"}, "was not read"},
		{result{-1, "", ""}, "was not read"},
		{result{71, "", "sandbox-exec: sandbox_apply: Operation not permitted"}, "outer sandbox"},
		{result{71, "", "sandbox-exec: sandbox_apply: Cannot allocate memory"}, "doesn't apply"},
		{result{71, "A", "sandbox-exec: execvp() of '/bin/cat' failed: No such file or directory"}, ""},
		{result{65, "", "sandbox-exec: <input string>:3:0: unbound variable: x\n\tmore"}, "unbound variable: x"},
	} {
		err := judgeCanary(x.result, "A", "D")
		if (err == nil) != (x.want == "") || err != nil && (!strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v: %v", x.result, err)
		}
	}
}

func TestTry(t *testing.T) {
	ok, bad := &darwin.Profile{Text: "(version 1)(allow default)"}, &darwin.Profile{Text: "(version 1)(deny default)"}
	yes := program(t, "true")
	if err := Try(substitute.Write(t, substitute.Denies), bad, "", yes); err != nil {
		t.Error(err)
	}
	rejects := substitute.Write(t, substitute.Rejects)
	if err := Try(rejects, ok, "", yes); err != nil {
		t.Error(err)
	}
	if err := Try(rejects, bad, "", yes); err == nil || !strings.Contains(err.Error(), "doesn't accept the profile") {
		t.Error(err)
	}
	if err := Try(substitute.Write(t, substitute.Outer), ok, "", yes); !errors.Is(err, ErrOuter) {
		t.Error(err)
	}
	if err := ownError(result{71, "", "sandbox-exec: execvp() of '/usr/bin/true' failed: Operation not permitted"}); err != nil {
		t.Error(err)
	}
}

func TestArgs(t *testing.T) {
	p := &darwin.Profile{Text: "(version 1)", Params: []darwin.Param{{Name: "P0", Value: "/a b=c"}, {Name: "P1", Value: ""}}}
	args, err := Args(Program, p, "", "ls", "-l")
	if want := []string{Program, "-p", "(version 1)", "-DP0=/a b=c", "-DP1=", "--", "ls", "-l"}; err != nil || !slices.Equal(args, want) {
		t.Error(args, err)
	}
	args, err = Args(Program, p, "/f", "-x")
	if want := []string{Program, "-f", "/f", "-DP0=/a b=c", "-DP1=", "--", "-x"}; err != nil || !slices.Equal(args, want) {
		t.Error(args, err)
	}
	for _, bad := range []darwin.Param{{Name: "", Value: "x"}, {Name: "A=B", Value: "x"}, {Name: "A", Value: "x\x00y"}} {
		if _, err := Args(Program, &darwin.Profile{Params: []darwin.Param{bad}}, "", "ls"); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestWriteLong: a long profile is in the first folder that the command can't write.
func TestWriteLong(t *testing.T) {
	open, closed := t.TempDir(), t.TempDir()
	grants := func(paths ...string) *policy.Compiled {
		l := policy.SourceLayer{Authority: policy.Session}
		l.Defaults[policy.FS] = policy.Deny
		for _, p := range paths {
			l.FS = append(l.FS, policy.FSRule{Path: p, Caps: policy.Read | policy.Create})
		}
		c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	long := &darwin.Profile{Text: strings.Repeat("; long\n", MaxInline)}
	file, remove, err := WriteLong(&darwin.Profile{Text: "short"}, grants(open), []string{open})
	if file != "" || err != nil || remove() != nil {
		t.Error(file, err)
	}
	file, remove, err = WriteLong(long, grants(open), []string{"", open, filepath.Join(closed, "none"), closed})
	if err != nil || filepath.Dir(filepath.Dir(file)) != closed {
		t.Fatal(file, err)
	}
	text, err := os.ReadFile(file)
	info, _ := os.Stat(filepath.Dir(file))
	if err != nil || string(text) != long.Text || info.Mode().Perm() != 0o700 {
		t.Error(len(text), err, info.Mode())
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	for _, c := range []*policy.Compiled{grants(open, closed), grants("/")} {
		if file, _, err := WriteLong(long, c, []string{open, closed}); err == nil {
			t.Error(file)
		}
	}
	for _, dir := range []string{open, closed} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	}
}
