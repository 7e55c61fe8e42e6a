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

// ownEntries is a layer with the built-in rule on the session's own /proc entries, and rules that somebody wrote.
func ownEntries(written ...policy.FSRule) policy.SourceLayer {
	return policy.SourceLayer{FS: append(written, rule("ro", r)), Runtime: append(runtimeRules(), policy.FSRule{
		Path: ownProc, Caps: r, Position: policy.Position{File: "builtin:runtime", Line: 1},
	})}
}

// TestOpenProc holds to who gets all of /proc for the sake of the own entries: nobody whose policy says otherwise, and not root.
func TestOpenProc(t *testing.T) {
	ws := workspace(t)
	for _, c := range []struct {
		what  string
		layer policy.SourceLayer
		root  bool
		opens bool
		why   string // what is said of the rule on the own entries
	}{
		{"an ordinary user", ownEntries(), false, true, "can't tell"},
		{"root", ownEntries(), true, false, "can't be told"},
		{"without the built-in rules", policy.SourceLayer{FS: []policy.FSRule{rule(ownProc, r)}}, false, false, "can't be told"},
		{"the same said by a rule", ownEntries(rule(ownProc, r)), false, true, "can't tell"},
		{"all is granted", ownEntries(rule(proc, r)), false, false, ""},
		{"more is granted", ownEntries(rule("/", r)), false, false, ""},
		{"something else is granted", ownEntries(rule("/", x)), false, true, "can't tell"},
		{"all is taken away", ownEntries(rule(proc, 0)), false, false, "none"},
		{"what is around is taken away", ownEntries(rule("/", 0)), false, false, "none"},
		{"a part is taken away", ownEntries(rule("/proc/keys", 0)), false, false, "can't be told"},
		{"a part of the own ones is", ownEntries(rule("/proc/self/maps", 0)), false, false, "can't be told"},
		{"some by a pattern", ownEntries(policy.FSRule{Match: "/proc/**/cmdline"}), false, false, "can't be told"},
		{"another folder is taken away", ownEntries(rule("none", 0)), false, true, "can't tell"},
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
			t.Errorf("%s: /proc is opened: %v, said: %q", c.what, opens, why)
		}
	}
	// What is taken away by another name is so by this one.
	for _, l := range compileAt(t, ws, ownEntries(rule("none", 0))).Layers {
		if mounted := []fspath.Alias{{From: ws + "/none", To: proc}}; restricts(l, policy.FS) && treeOf(l, mounted, false).proc != nil {
			t.Error("a folder was taken away that /proc is mounted on, too, and /proc is opened")
		}
	}
}

// TestProcOfOthers holds what of /proc is open then: of a process outside, of the same user, nothing that may lead to its memory,
// its environment or its files; and to root nothing.
func TestProcOfOthers(t *testing.T) {
	version, ws := abi(t), workspace(t)
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
		var deeds []string
		for _, name := range []string{
			"environ", "maps", "smaps", "auxv", "pagemap", "fd/0", "exe", "root/bin/true", "cwd/bin/true", "ns/mnt", "task/%d/environ",
		} {
			deeds = append(deeds, "read "+strings.ReplaceAll(fmt.Sprintf("/proc/%%d/%s", name), "%d", fmt.Sprint(victim.Process.Pid)))
		}
		closed := len(deeds)
		for _, name := range []string{"self/maps", "self/environ", "self/task", fmt.Sprint(victim.Process.Pid, "/cmdline"), ""} {
			deeds = append(deeds, "read /proc/"+name)
		}
		if uid == 0 {
			closed, deeds = len(deeds)+1, append(deeds, "read "+key)
		}
		plan, err := planFor(compileAt(t, ws, ownEntries()), version, uid == 0)
		childtest.Must(t, err)
		bare, got := inChild(t, uid, nil, deeds...), inChild(t, uid, plan, deeds...)
		for i, d := range deeds {
			if refused := got[d] == unix.EACCES || got[d] == unix.EPERM; bare[d] != 0 || refused != (i < closed) || !refused && got[d] != 0 {
				t.Errorf("%s as %d: %v, bare %v", d, uid, got[d], bare[d])
			}
		}
	}
}
