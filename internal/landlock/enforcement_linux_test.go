package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

const (
	r   = policy.Read
	w   = policy.Write
	x   = policy.Execute
	rwx = r | w | x
)

// makeWorkspace creates a folder that every user may change, with the files that the tests use.
func makeWorkspace(t testing.TB) string {
	t.Helper()
	ws, err := os.MkdirTemp("/var/tmp", "landlock-test-")
	childtest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(ws) })
	for _, d := range []string{"", "/ro", "/ro/sub", "/rw", "/rw/sub", "/rw/empty", "/rwx", "/upd", "/none", "/none/sub", "/rw2"} {
		_ = os.Mkdir(ws+d, 0o777)
		childtest.Must(t, os.Chmod(ws+d, 0o777))
	}
	sh := childtest.ReadFile(t, "/bin/true")
	for _, d := range []string{"/ro", "/ro/sub", "/rw", "/rw/sub", "/rwx", "/upd", "/none", "/none/sub", "/rw2"} {
		write(t, ws+d+"/file", []byte("text"), 0o666)
		write(t, ws+d+"/prog", sh, 0o777)
	}
	return ws
}

func write(t testing.TB, path string, text []byte, mode os.FileMode) {
	t.Helper()
	childtest.Must(t, os.WriteFile(path, text, mode))
	childtest.Must(t, os.Chmod(path, mode)) // whatever the umask
}

// operationCase is one operation with its result under the policy. Unconfined it must succeed.
type operationCase struct {
	operation string
	want      syscall.Errno
}

var fsCases = []operationCase{
	{"read ro/file", 0},
	{"list ro", 0},
	{"list ro/sub", 0},
	{"stat none/file", 0},
	{"path none/file", 0},
	{"write ro/file", unix.EACCES},
	{"append ro/file", unix.EACCES},
	{"readcut ro/file", unix.EACCES},
	{"opencut ro/file", unix.EACCES},
	{"truncate ro/file", unix.EACCES},
	{"create ro/new", unix.EACCES},
	{"mkdir ro/new", unix.EACCES},
	{"symlink ro/new", unix.EACCES},
	{"mkfifo ro/new", unix.EACCES},
	{"bind ro/new", unix.EACCES},
	{"unlink ro/file", unix.EACCES},
	{"rename ro/file ro/new", unix.EACCES},
	{"link ro/file ro/new", unix.EACCES},
	{"exec ro/prog", unix.EACCES},
	{"tmpfile ro", unix.EACCES},

	{"read none/file", unix.EACCES},
	{"list none", unix.EACCES},
	{"write none/file", unix.EACCES},
	{"readcut none/file", unix.EACCES},
	{"create none/new", unix.EACCES},
	{"exec none/prog", unix.EACCES},
	{"unlink none/sub/file", unix.EACCES},
	{"mkdir none/sub/new", unix.EACCES},
	{"rename none/file rw/new", unix.EACCES},
	{"link none/file rw/new", unix.EXDEV},
	{"rename rw/file none/new", unix.EACCES},
	{"link rw/file none/new", unix.EACCES},
	{"rename ro/file rw/new", unix.EACCES},
	{"link ro/file rw/new", unix.EXDEV},

	{"read rw/file", 0},
	{"write rw/file", 0},
	{"readcut rw/file", 0},
	{"truncate rw/file", 0},
	{"create rw/new", 0},
	{"mkdir rw/new", 0},
	{"symlink rw/new", 0},
	{"mkfifo rw/new", 0},
	{"bind rw/new", 0},
	{"unlink rw/file", 0},
	{"rmdir rw/empty", 0},
	{"rename rw/file rw/new", 0},
	{"rename rw/file rw/sub/file", 0},
	{"rename rw/sub rw/new", 0},
	{"link rw/file rw/new", 0},
	{"link rw/file rw/sub/new", 0},
	{"exchange rw/file rw/sub/file", 0},
	{"tmpfile rw", 0},
	{"rename rw/file rw2/new", 0},
	{"link rw/file rw2/new", 0},
	{"exec rw/prog", unix.EACCES},

	{"exec rwx/prog", 0},
	{"rename rwx/file rw/new", 0},
	{"rename rw/file rwx/new", unix.EXDEV},
	{"link rw/file rwx/new", unix.EXDEV}, // no gain

	{"write upd/file", 0},
	{"read upd/file", 0},
	{"readcut upd/file", 0},
	{"create upd/new", unix.EACCES},
	{"unlink upd/file", unix.EACCES},
	{"rename upd/file upd/new", unix.EACCES},
	{"link upd/file upd/new", unix.EACCES},
}

// fsLayer grants on the folders of workspaces the capabilities in their names.
func fsLayer(workspaces ...string) policy.SourceLayer {
	l := policy.SourceLayer{Runtime: runtimeRules()}
	for _, ws := range workspaces {
		l.FS = append(l.FS, rule(ws+"/ro", r), rule(ws+"/rw", r|w), rule(ws+"/rw2", r|w), rule(ws+"/rwx", rwx), rule(ws+"/upd", r|policy.Update), rule(ws+"/none", 0))
	}
	return l
}

// resolvePaths makes an operation's names paths in a workspace.
func resolvePaths(ws, op string) string {
	words := strings.Fields(op)
	for i, w := range words[1:] {
		words[i+1] = filepath.Join(ws, w)
	}
	return strings.Join(words, " ")
}

// TestFS performs every operation in a workspace of its own, unconfined and under the policy, as each user.
func TestFS(t *testing.T) {
	version := abi(t)
	if version < 3 {
		t.Skip("truncation needs Landlock ABI 3")
	}
	fresh := func() (workspaces, ops []string) {
		for _, oc := range fsCases {
			ws := makeWorkspace(t)
			workspaces, ops = append(workspaces, ws), append(ops, resolvePaths(ws, oc.operation))
		}
		return workspaces, ops
	}
	for _, uid := range childtest.Users() {
		workspaces, ops := fresh()
		c := compileAt(t, workspaces[0], fsLayer(workspaces...))
		mustBeEnforced(t, c, version)
		plan := mustPlan(c, version)
		var before []string
		for _, ws := range workspaces {
			before = append(before, describeTree(t, ws))
		}
		got := inChild(t, uid, plan, ops...)
		for i, oc := range fsCases {
			if got[ops[i]] != oc.want {
				t.Errorf("%s as %d, confined: %v, want %v", oc.operation, uid, got[ops[i]], oc.want)
			}
			if after := describeTree(t, workspaces[i]); oc.want != 0 && after != before[i] {
				t.Errorf("%s as %d was denied, but the workspace has changed:\n%s\n%s", oc.operation, uid, before[i], after)
			}
		}
	}
	_, ops := fresh()
	for op, err := range inChild(t, os.Getuid(), nil, ops...) {
		if err != 0 {
			t.Errorf("bare %s: %v, so it shows nothing", op, err)
		}
	}
}

// TestInseparableCaps checks the kernel against Report for capabilities that can't be granted one by one.
func TestInseparableCaps(t *testing.T) {
	version := abi(t)
	ws := makeWorkspace(t)
	layer := policy.SourceLayer{Runtime: runtimeRules(), FS: []policy.FSRule{
		rule("rwx", x), rule("rw", policy.Create), rule("rw2/file", r|w), rule("rw/sub", r|policy.Create), rule("upd", w),
	}}
	c := compileAt(t, ws, layer)
	no, partly := policy.NotEnforceable, policy.Partly
	for i, want := range []policy.Status{no, no, policy.Enforced, no, partly} {
		wantRow(t, "together", Report(c, version), fmt.Sprint("fs.", i+1), want, " ")
	}
	checkOperations(t, "together", os.Getuid(), mustPlan(c, version), ws,
		operationCase{"exec rwx/prog", unix.EACCES}, operationCase{"create rw/new", unix.EACCES}, operationCase{"unlink rw2/file", unix.EACCES},
		operationCase{"write rw2/file", 0}, operationCase{"mkdir rw/folder", 0}, operationCase{"link upd/file upd/new", 0})
}

// checkOperations performs operations in a workspace, in a child under a plan.
func checkOperations(t *testing.T, what string, uid int, plan *Plan, ws string, cases ...operationCase) {
	t.Helper()
	var ops []string
	for _, oc := range cases {
		ops = append(ops, resolvePaths(ws, oc.operation))
	}
	got := inChild(t, uid, plan, ops...)
	for i, oc := range cases {
		if got[ops[i]] != oc.want {
			t.Errorf("%s: %s as %d: %v, want %v", what, oc.operation, uid, got[ops[i]], oc.want)
		}
	}
}

func mustBeEnforced(t testing.TB, c *policy.Compiled, abi int) {
	t.Helper()
	for _, row := range Report(c, abi) {
		if row.Status != policy.Enforced && row.Rule.Authority != policy.Builtin {
			t.Fatalf("%s is %s: %s", row.ID, row.Status, row.Why)
		}
	}
}

// describeTree returns the names, sizes and kinds of all files in a folder.
func describeTree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			size := fi.Size()
			if d.IsDir() {
				size = 0
			}
			fmt.Fprintln(&b, strings.TrimPrefix(p, dir), size, fi.Mode())
		}
		return err
	})
	childtest.Must(t, err)
	return b.String()
}

// TestEverySession checks the restrictions that need no policy: device nodes, mounts, and processes outside the session.
func TestEverySession(t *testing.T) {
	version := abi(t)
	ws := makeWorkspace(t)
	plan := mustPlan(compileAt(t, ws, policy.SourceLayer{}), version) // declares nothing
	me := os.Getpid()
	for i, oc := range []operationCase{
		{"mknod " + ws + "/rw/null", unix.EACCES}, {"mount " + ws + "/rw", unix.EPERM}, {fmt.Sprint("signal ", me), unix.EPERM}, {fmt.Sprint("trace ", me), unix.EPERM},
	} {
		if os.Getuid() != 0 && i < 2 || version < 6 && i == 2 {
			continue // needs root, or scopes
		}
		if got := inChild(t, os.Getuid(), plan, oc.operation); got[oc.operation] != oc.want {
			t.Errorf("%s: %v, want %v", oc.operation, got[oc.operation], oc.want)
		}
	}
	checkOperations(t, "nothing is declared", os.Getuid(), plan, ws, operationCase{"read none/file", 0}, operationCase{"create none/new", 0}, operationCase{"rename none/file ro/new", 0},
		operationCase{"link rw/file rw2/new", 0}, operationCase{"exec rw/prog", 0}, operationCase{"symlink ro/link", 0})
	ws2 := makeWorkspace(t)
	bare := []string{"mknod " + ws2 + "/rw/null", fmt.Sprint("signal ", me)}
	for d, e := range inChild(t, os.Getuid(), nil, bare...) {
		if e != 0 && os.Getuid() == 0 {
			t.Errorf("bare %s: %v, so it shows nothing", d, e)
		}
	}
}

// TestCommands checks that only the listed programs run, scripts included, whatever fs grants.
func TestCommands(t *testing.T) {
	version := abi(t)
	ws := makeWorkspace(t)
	write(t, ws+"/rwx/script", []byte("#!/bin/sh -e\nexit 0\n"), 0o777)
	layer := policy.SourceLayer{Commands: []policy.CommandRule{{Name: ws + "/rwx/prog"}, {Name: ws + "/rwx/script"}, {Name: "sh"}}}
	c := compileAt(t, ws, layer)
	mustBeEnforced(t, c, version)
	for _, uid := range childtest.Users() {
		checkOperations(t, "commands", uid, mustPlan(c, version), ws, operationCase{"exec rwx/prog", 0}, operationCase{"exec rwx/script", 0}, operationCase{"exec rw/prog", unix.EACCES},
			operationCase{"exec ../../../bin/true", unix.EACCES}, operationCase{"write rw/file", 0})
	}
	checkOperations(t, "commands", os.Getuid(), mustPlan(c, version), ws, operationCase{"rename rw/file rw2/new", 0})
}

// TestEveryABI applies the plans for every ABI up to this kernel's.
func TestEveryABI(t *testing.T) {
	version := abi(t)
	noNet := policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}}
	commands := policy.SourceLayer{Commands: []policy.CommandRule{{Name: "true"}}}
	for abi := 1; abi <= version; abi++ {
		ws := makeWorkspace(t)
		for what, c := range map[string]struct {
			layer policy.SourceLayer
			cases []operationCase
		}{
			"fs": {fsLayer(ws), []operationCase{
				{"read ro/file", 0},
				{"write ro/file", unix.EACCES},
				{"create rw/new", 0},
				{"create none/new", unix.EACCES},
				{"rename rw/file rw/x", 0},
				{"exec rw/prog", unix.EACCES},
			}},
			"net":      {noNet, []operationCase{{"create none/net", 0}, {"rename rwx/file ro/x", 0}, {"exec rw/prog", 0}, {"rmdir rw/empty", 0}}},
			"commands": {commands, []operationCase{{"create none/commands", 0}, {"rename rwx/prog ro/y", 0}, {"exec rw/prog", unix.EACCES}}},
		} {
			for i, oc := range c.cases {
				if abi < 2 && strings.HasPrefix(oc.operation, "rename rwx/") {
					c.cases[i].want = unix.EXDEV // a stated gap
				}
			}
			checkOperations(t, fmt.Sprintf("abi %d, %s", abi, what), os.Getuid(), mustPlan(compileAt(t, ws, c.layer), abi), ws, c.cases...)
		}
	}
}

func TestCanary(t *testing.T) {
	abi(t)
	before := noNewPrivs(t)
	for range 20 { // so that some run on the first thread
		childtest.Must(t, Canary())
	}
	if after := noNewPrivs(t); after != before {
		t.Errorf("the canary restricted the process: %s, then %s", before, after)
	}
	if _, err := os.ReadDir("/"); err != nil {
		t.Errorf("after the canary: %v", err)
	}
}

// noNewPrivs returns no_new_privs of the process's first thread.
func noNewPrivs(t *testing.T) string {
	t.Helper()
	text := childtest.ReadFile(t, "/proc/self/status")
	_, after, _ := strings.Cut(string(text), "NoNewPrivs:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// TestChangedPath checks that a symlink that was put in a rule's path after the policy was compiled is an error, not a grant on its target.
func TestChangedPath(t *testing.T) {
	version := abi(t)
	for _, swap := range []string{"/rw", "/rw/sub"} {
		ws := makeWorkspace(t)
		c := compileAt(t, ws, policy.SourceLayer{FS: []policy.FSRule{rule("rw/sub", r)}})
		plan := mustPlan(c, version)
		fd, err := openAndCompare(ws+"/rw/sub", unix.O_PATH|unix.O_DIRECTORY)
		childtest.Must(t, err)
		childtest.Must(t, errors.Join(unix.Close(fd), os.RemoveAll(ws+swap)))
		if err := plan.Prepare(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was removed: %v", swap, err)
		}
		childtest.Must(t, os.Symlink(ws+"/none", ws+swap))
		if err := plan.Prepare(); err == nil || !strings.Contains(err.Error(), "symlink") || !strings.Contains(err.Error(), "fs.1") {
			t.Errorf("%s: %v", swap, err)
		}
		if _, err := openAndCompare(ws+"/rw/sub", unix.O_PATH|unix.O_DIRECTORY); err == nil {
			t.Errorf("%s: opened by comparison", swap)
		}
	}
}
