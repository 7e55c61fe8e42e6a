package landlock

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// withOwnProc returns a layer with the built-in rule on the session's own /proc entries, and the given rules.
func withOwnProc(written ...policy.FSRule) policy.SourceLayer {
	return policy.SourceLayer{FS: append(written, rule("ro", r)), Runtime: append(runtimeRules(), policy.FSRule{
		Path: ownProc, Caps: r, Position: policy.Position{File: "builtin:runtime", Line: 1},
	})}
}

// TestOpenProc checks which sessions get all of /proc with the own entries: no policy with another rule about it, and not root.
func TestOpenProc(t *testing.T) {
	ws := makeWorkspace(t)
	for _, c := range []struct {
		what  string
		layer policy.SourceLayer
		root  bool
		opens bool
		why   string // of the rule on the own entries
	}{
		{"an ordinary user", withOwnProc(), false, true, "which programs need"},
		{"root", withOwnProc(), true, false, "aren't readable"},
		{"without the built-in rules", policy.SourceLayer{FS: []policy.FSRule{rule(ownProc, r)}}, false, false, "aren't readable"},
		{"the same by a rule", withOwnProc(rule(ownProc, r)), false, true, "which programs need"},
		{"all is granted", withOwnProc(rule(proc, r)), false, false, ""},
		{"more is granted", withOwnProc(rule("/", r)), false, false, ""},
		{"something else is granted", withOwnProc(rule("/", x)), false, true, "which programs need"},
		{"all is denied", withOwnProc(rule(proc, 0)), false, false, "none"},
		{"the parent is denied", withOwnProc(rule("/", 0)), false, false, "none"},
		{"a part is denied", withOwnProc(rule("/proc/keys", 0)), false, false, "aren't readable"},
		{"a part of the own ones is", withOwnProc(rule("/proc/self/maps", 0)), false, false, "aren't readable"},
		{"some by a pattern", withOwnProc(policy.FSRule{Match: "/proc/**/cmdline"}), false, false, "aren't readable"},
		{"another folder is denied", withOwnProc(rule("none", 0)), false, true, "which programs need"},
	} {
		compiled := compileAt(t, ws, c.layer)
		plan, err := planFor(compiled, 7, c.root)
		childtest.Must(t, err)
		opens := slices.ContainsFunc(plan.Rulesets[0].Grants, func(g Grant) bool { return g.Path == proc && g.Rule != nil && g.Rule.FS.Written == ownProc })
		rows, why := reportFor(compiled, 7, c.root), "none"
		for _, row := range rows {
			if row.Rule.FS.Path == ownProc && !strings.Contains(row.Why, "decides") {
				why = row.Why
			}
			if open := row.Opens == proc; open != (open && c.opens && row.Advisory && row.Status == policy.Partly) {
				t.Errorf("%s: %+v", c.what, row)
			}
		}
		if opens != c.opens || !strings.Contains(why, c.why) || opens != slices.ContainsFunc(rows, func(row policy.Enforceability) bool { return row.Opens == proc }) {
			t.Errorf("%s: /proc is opened: %v, reported: %q", c.what, opens, why)
		}
	}
	// A denial under an alias of /proc counts as well.
	for _, l := range compileAt(t, ws, withOwnProc(rule("none", 0))).Layers {
		if mounted := []fspath.Alias{{From: ws + "/none", To: proc}}; restricts(l, policy.FS) && treeOf(l, mounted, false).proc != nil {
			t.Error("a folder is denied on which /proc is also mounted, and /proc is opened")
		}
	}
}

// TestProcOutsideSession checks which files of /proc can be read then: of a process outside the session, of the same user, none that leads to its
// memory, environment or files; and as root none.
func TestProcOutsideSession(t *testing.T) {
	version, ws := abi(t), makeWorkspace(t)
	const key = "/proc/sys/net/ipv4/tcp_fastopen_key"
	for _, uid := range childtest.Users() {
		victim := exec.Command("sleep", "600")
		victim.Dir = "/usr"
		victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		if uid == os.Getuid() {
			victim.SysProcAttr = nil
		}
		childtest.Must(t, victim.Start())
		defer victim.Wait()
		defer victim.Process.Kill()
		var ops []string
		for _, name := range []string{
			"environ", "maps", "smaps", "auxv", "pagemap", "fd/0", "exe", "root/bin/true", "cwd/bin/true", "ns/mnt", "task/%d/environ",
		} {
			ops = append(ops, "read "+strings.ReplaceAll(fmt.Sprintf("/proc/%%d/%s", name), "%d", fmt.Sprint(victim.Process.Pid)))
		}
		closed := len(ops)
		for _, name := range []string{"self/maps", "self/environ", "self/task", fmt.Sprint(victim.Process.Pid, "/cmdline"), ""} {
			ops = append(ops, "read /proc/"+name)
		}
		if uid == 0 {
			closed, ops = len(ops)+1, append(ops, "read "+key)
		}
		plan, err := planFor(compileAt(t, ws, withOwnProc()), version, uid == 0)
		childtest.Must(t, err)
		bare, got := inChild(t, uid, nil, ops...), inChild(t, uid, plan, ops...)
		for i, d := range ops {
			if denied := got[d] == unix.EACCES || got[d] == unix.EPERM; bare[d] != 0 || denied != (i < closed) || !denied && got[d] != 0 {
				t.Errorf("%s as %d: %v, bare %v", d, uid, got[d], bare[d])
			}
		}
	}
}
