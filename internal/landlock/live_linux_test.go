package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
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

// workspace makes a folder that anybody may use, with what the tests try things on.
func workspace(t testing.TB) string {
	t.Helper()
	ws, err := os.MkdirTemp("/var/tmp", "landlock-test-")
	childtest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(ws) })
	for _, d := range []string{"", "/ro", "/ro/sub", "/rw", "/rw/sub", "/rw/empty", "/rwx", "/upd", "/none", "/none/sub", "/rw2"} {
		_ = os.Mkdir(ws+d, 0o777)
		childtest.Must(t, os.Chmod(ws+d, 0o777))
	}
	sh, err := os.ReadFile("/bin/true")
	childtest.Must(t, err)
	for _, d := range []string{"/ro", "/ro/sub", "/rw", "/rw/sub", "/rwx", "/upd", "/none", "/none/sub", "/rw2"} {
		write(t, ws+d+"/file", []byte("text"), 0o666)
		write(t, ws+d+"/prog", sh, 0o777)
	}
	return ws
}

func write(t testing.TB, path string, text []byte, mode os.FileMode) {
	t.Helper()
	childtest.Must(t, os.WriteFile(path, text, mode))
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

// deedCase is one deed and what it must come to under the policy; it must succeed bare.
type deedCase struct {
	deed string
	want syscall.Errno
}

var fsCases = []deedCase{
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

// fsLayer grants the folders of workspaces what their names say.
func fsLayer(workspaces ...string) policy.SourceLayer {
	l := policy.SourceLayer{Runtime: runtimeRules()}
	for _, ws := range workspaces {
		l.FS = append(l.FS, rule(ws+"/ro", r), rule(ws+"/rw", r|w), rule(ws+"/rw2", r|w), rule(ws+"/rwx", rwx), rule(ws+"/upd", r|policy.Update), rule(ws+"/none", 0))
	}
	return l
}

// inWorkspace turns a deed's names into paths.
func inWorkspace(ws, deed string) string {
	words := strings.Fields(deed)
	for i, w := range words[1:] {
		words[i+1] = filepath.Join(ws, w)
	}
	return strings.Join(words, " ")
}

// TestKernelHoldsThePolicy tries every deed, each in a workspace of its own, bare and under the policy, as each user.
func TestKernelHoldsThePolicy(t *testing.T) {
	version := abi(t)
	if version < 3 {
		t.Skip("truncation needs Landlock ABI 3")
	}
	fresh := func() (workspaces, deeds []string) {
		for _, dc := range fsCases {
			ws := workspace(t)
			workspaces, deeds = append(workspaces, ws), append(deeds, inWorkspace(ws, dc.deed))
		}
		return workspaces, deeds
	}
	for _, uid := range childtest.Users() {
		workspaces, deeds := fresh()
		c := compileAt(t, workspaces[0], fsLayer(workspaces...))
		mustBeEnforced(t, c, version)
		plan := whole(c, version)
		var before []string
		for _, ws := range workspaces {
			before = append(before, snapshot(t, ws))
		}
		got := inChild(t, uid, plan, deeds...)
		for i, dc := range fsCases {
			if got[deeds[i]] != dc.want {
				t.Errorf("%s as %d, guarded: %v, want %v", dc.deed, uid, got[deeds[i]], dc.want)
			}
			if after := snapshot(t, workspaces[i]); dc.want != 0 && after != before[i] {
				t.Errorf("%s as %d was refused, but the workspace has changed:\n%s\n%s", dc.deed, uid, before[i], after)
			}
		}
	}
	_, deeds := fresh()
	for deed, err := range inChild(t, os.Getuid(), nil, deeds...) {
		if err != 0 {
			t.Errorf("bare %s: %v, so it shows nothing", deed, err)
		}
	}
}

// TestTogether compares the kernel with Report for capabilities that can't be granted one by one.
func TestTogether(t *testing.T) {
	version := abi(t)
	ws := workspace(t)
	layer := policy.SourceLayer{Runtime: runtimeRules(), FS: []policy.FSRule{
		rule("rwx", x), rule("rw", policy.Create), rule("rw2/file", r|w), rule("rw/sub", r|policy.Create), rule("upd", w),
	}}
	c := compileAt(t, ws, layer)
	no, partly := policy.NotEnforceable, policy.Partly
	for i, want := range []policy.Status{no, no, policy.Enforced, no, partly} {
		wantRow(t, "together", Report(c, version), fmt.Sprint("fs.", i+1), want, " ")
	}
	wantDeeds(t, "together", os.Getuid(), whole(c, version), ws,
		deedCase{"exec rwx/prog", unix.EACCES}, deedCase{"create rw/new", unix.EACCES}, deedCase{"unlink rw2/file", unix.EACCES},
		deedCase{"write rw2/file", 0}, deedCase{"mkdir rw/folder", 0}, deedCase{"link upd/file upd/new", 0})
}

// wantDeeds has a child try deeds in a workspace under a plan.
func wantDeeds(t *testing.T, what string, uid int, plan *Plan, ws string, cases ...deedCase) {
	t.Helper()
	var deeds []string
	for _, dc := range cases {
		deeds = append(deeds, inWorkspace(ws, dc.deed))
	}
	got := inChild(t, uid, plan, deeds...)
	for i, dc := range cases {
		if got[deeds[i]] != dc.want {
			t.Errorf("%s: %s as %d: %v, want %v", what, dc.deed, uid, got[deeds[i]], dc.want)
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

// snapshot is the names, sizes and kinds of everything in a folder.
func snapshot(t testing.TB, dir string) string {
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

// TestAlways holds what no policy has to say: device nodes, mounts, and processes and sockets outside the session.
func TestAlways(t *testing.T) {
	version := abi(t)
	ws := workspace(t)
	plan := whole(compileAt(t, ws, policy.SourceLayer{}), version) // declares nothing
	me := os.Getpid()
	for i, dc := range []deedCase{
		{"mknod " + ws + "/rw/null", unix.EACCES}, {"mount " + ws + "/rw", unix.EPERM}, {fmt.Sprint("signal ", me), unix.EPERM}, {fmt.Sprint("trace ", me), unix.EPERM},
	} {
		if os.Getuid() != 0 && i < 2 || version < 6 && i == 2 {
			continue // only root may, or before scopes
		}
		if got := inChild(t, os.Getuid(), plan, dc.deed); got[dc.deed] != dc.want {
			t.Errorf("%s: %v, want %v", dc.deed, got[dc.deed], dc.want)
		}
	}
	wantDeeds(t, "nothing is declared", os.Getuid(), plan, ws, deedCase{"read none/file", 0}, deedCase{"create none/new", 0}, deedCase{"rename none/file ro/new", 0},
		deedCase{"link rw/file rw2/new", 0}, deedCase{"exec rw/prog", 0}, deedCase{"symlink ro/link", 0})
	ws2 := workspace(t)
	bare := []string{"mknod " + ws2 + "/rw/null", fmt.Sprint("signal ", me)}
	for d, e := range inChild(t, os.Getuid(), nil, bare...) {
		if e != 0 && os.Getuid() == 0 {
			t.Errorf("bare %s: %v, so it shows nothing", d, e)
		}
	}
}

// TestAbstractSocket holds that sockets without a path are out of reach where fs or net is restricted, and not otherwise.
func TestAbstractSocket(t *testing.T) {
	version := abi(t)
	if version < 6 {
		t.Skip("abstract unix sockets need Landlock ABI 6")
	}
	name := fmt.Sprintf("toolguard-test-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	childtest.Must(t, err)
	defer l.Close()
	deed := "abstract " + name
	for _, c := range []struct {
		layer policy.SourceLayer
		want  syscall.Errno
	}{
		{policy.SourceLayer{}, 0},
		{policy.SourceLayer{FS: []policy.FSRule{rule("ro", r)}}, unix.EPERM},
		{policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}}, unix.EPERM},
	} {
		if got := inChild(t, os.Getuid(), whole(compileAt(t, workspace(t), c.layer), version), deed); got[deed] != c.want {
			t.Errorf("%+v: %v, want %v", c.layer.Defaults, got[deed], c.want)
		}
	}
}

// TestPorts holds the TCP ports, and shows why package seccomp refuses TCP Fast Open beside them.
func TestPorts(t *testing.T) {
	version := abi(t)
	if version < 4 {
		t.Skip("TCP needs Landlock ABI 4")
	}
	listen := func() (net.Listener, int) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		childtest.Must(t, err)
		return l, l.Addr().(*net.TCPAddr).Port
	}
	good, granted := listen()
	defer good.Close()
	bad, other := listen()
	defer bad.Close()
	everywhere := func(port int) []policy.NetRule {
		return []policy.NetRule{{Host: "0.0.0.0/0", Port: port, Allow: true}, {Host: "::/0", Port: port, Allow: true}}
	}
	c := compileAt(t, workspace(t), policy.SourceLayer{Net: everywhere(granted)})
	mustBeEnforced(t, c, version)
	yes, no, bind := fmt.Sprint("tcp ", granted), fmt.Sprint("tcp ", other), "bindtcp 0"
	fast := fmt.Sprint("fastopen ", other)
	got := inChild(t, os.Getuid(), whole(c, version), yes, no, bind, fast)
	if got[yes] != 0 || got[no] != unix.EACCES || got[bind] != unix.EACCES {
		t.Errorf("%v", got)
	}
	t.Logf("TCP Fast Open to a port that Landlock refuses: %v", got[fast])
	for d, e := range inChild(t, os.Getuid(), nil, yes, no, bind, fast) {
		if e != 0 {
			t.Errorf("bare %s: %v", d, e)
		}
	}
}

// TestUDPPorts holds the UDP ports, to which datagrams go with a connection and without.
func TestUDPPorts(t *testing.T) {
	version := abi(t)
	if version < 10 {
		t.Skip("UDP needs Landlock ABI 10")
	}
	open := func() (*net.UDPConn, int) {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		childtest.Must(t, err)
		return c, c.LocalAddr().(*net.UDPAddr).Port
	}
	good, granted := open()
	defer good.Close()
	bad, other := open()
	defer bad.Close()
	var rules []policy.NetRule
	for _, host := range []string{"0.0.0.0/0", "::/0"} {
		rules = append(rules, policy.NetRule{Host: host, Port: granted, Protocol: "udp", Allow: true})
	}
	c := compileAt(t, workspace(t), policy.SourceLayer{Net: rules})
	mustBeEnforced(t, c, version)
	free, freePort := open()
	free.Close()
	want := map[string]unix.Errno{
		fmt.Sprint("udp ", granted): 0, fmt.Sprint("udpto ", granted): 0, "bindudp 0": 0,
		fmt.Sprint("udp ", other): unix.EACCES, fmt.Sprint("udpto ", other): unix.EACCES, fmt.Sprint("bindudp ", freePort): unix.EACCES,
	}
	deeds := slices.Sorted(maps.Keys(want))
	for d, got := range inChild(t, os.Getuid(), whole(c, version), deeds...) {
		if got != want[d] {
			t.Errorf("%s: %v, want %v", d, got, want[d])
		}
	}
	for d, got := range inChild(t, os.Getuid(), nil, deeds...) {
		if got != 0 {
			t.Errorf("bare %s: %v", d, got)
		}
	}
}

// TestCommands holds that only the listed programs run, whatever fs says, scripts by their interpreter included.
func TestCommands(t *testing.T) {
	version := abi(t)
	ws := workspace(t)
	write(t, ws+"/rwx/script", []byte("#!/bin/sh -e\nexit 0\n"), 0o777)
	layer := policy.SourceLayer{Commands: []policy.CommandRule{{Name: ws + "/rwx/prog"}, {Name: ws + "/rwx/script"}, {Name: "sh"}}}
	c := compileAt(t, ws, layer)
	mustBeEnforced(t, c, version)
	for _, uid := range childtest.Users() {
		wantDeeds(t, "commands", uid, whole(c, version), ws, deedCase{"exec rwx/prog", 0}, deedCase{"exec rwx/script", 0}, deedCase{"exec rw/prog", unix.EACCES},
			deedCase{"exec ../../../bin/true", unix.EACCES}, deedCase{"write rw/file", 0})
	}
	wantDeeds(t, "commands", os.Getuid(), whole(c, version), ws, deedCase{"rename rw/file rw2/new", 0})
}

// TestEveryABI applies plans made for each older kernel that this one can stand in for.
func TestEveryABI(t *testing.T) {
	version := abi(t)
	noNet := policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}}
	commands := policy.SourceLayer{Commands: []policy.CommandRule{{Name: "true"}}}
	for abi := 1; abi <= version; abi++ {
		ws := workspace(t)
		for what, c := range map[string]struct {
			layer policy.SourceLayer
			cases []deedCase
		}{
			"fs": {fsLayer(ws), []deedCase{
				{"read ro/file", 0},
				{"write ro/file", unix.EACCES},
				{"create rw/new", 0},
				{"create none/new", unix.EACCES},
				{"rename rw/file rw/x", 0},
				{"exec rw/prog", unix.EACCES},
			}},
			"net":      {noNet, []deedCase{{"create none/net", 0}, {"rename rwx/file ro/x", 0}, {"exec rw/prog", 0}, {"rmdir rw/empty", 0}}},
			"commands": {commands, []deedCase{{"create none/commands", 0}, {"rename rwx/prog ro/y", 0}, {"exec rw/prog", unix.EACCES}}},
		} {
			for i, dc := range c.cases {
				if abi < 2 && strings.HasPrefix(dc.deed, "rename rwx/") {
					c.cases[i].want = unix.EXDEV // a stated gap
				}
			}
			wantDeeds(t, fmt.Sprintf("abi %d, %s", abi, what), os.Getuid(), whole(compileAt(t, ws, c.layer), abi), ws, c.cases...)
		}
	}
}

func TestCanary(t *testing.T) {
	abi(t)
	before := snapshotThread(t)
	for range 20 { // now and then it would be on the first thread
		childtest.Must(t, Canary())
	}
	if after := snapshotThread(t); after != before {
		t.Errorf("the canary restricted the process: %s, then %s", before, after)
	}
	if _, err := os.ReadDir("/"); err != nil {
		t.Errorf("after the canary: %v", err)
	}
}

// snapshotThread is whether the process, that is its first thread, has no_new_privs.
func snapshotThread(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	childtest.Must(t, err)
	_, after, _ := strings.Cut(string(text), "NoNewPrivs:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// TestMovedPath holds that a symlink that has come into a rule's path since the policy was compiled is an error, not a grant
// on what it leads to.
func TestMovedPath(t *testing.T) {
	version := abi(t)
	for _, swap := range []string{"/rw", "/rw/sub"} {
		ws := workspace(t)
		c := compileAt(t, ws, policy.SourceLayer{FS: []policy.FSRule{rule("rw/sub", r)}})
		plan := whole(c, version)
		fd, err := openCompared(ws+"/rw/sub", unix.O_PATH|unix.O_DIRECTORY)
		childtest.Must(t, err)
		childtest.Must(t, errors.Join(unix.Close(fd), os.RemoveAll(ws+swap)))
		if err := plan.Prepare(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is gone: %v", swap, err)
		}
		childtest.Must(t, os.Symlink(ws+"/none", ws+swap))
		if err := plan.Prepare(); err == nil || !strings.Contains(err.Error(), "symlink") || !strings.Contains(err.Error(), "fs.1") {
			t.Errorf("%s: %v", swap, err)
		}
		if _, err := openCompared(ws+"/rw/sub", unix.O_PATH|unix.O_DIRECTORY); err == nil {
			t.Errorf("%s: opened by comparison", swap)
		}
	}
}
