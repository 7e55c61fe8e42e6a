//go:build linux

package daemon

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemontest"
)

// While the audit's disk is full no session begins, and running ones stay enforced.
func TestAuditDiskFull(t *testing.T) {
	daemontest.Needs(t)
	state := t.TempDir()
	dir := state + "/audit"
	must(t, os.Mkdir(dir, 0o700))
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	serve(t, state)
	confined := newJob(t, nobodyUID, work, keepLooking).start()
	confined.wrote("can", "no")
	must(t, os.WriteFile(dir+"/ballast", make([]byte, 104<<10), 0o600))
	rejected := ""
	eventually(t, "no session begins", func() bool {
		j := newJob(t, nobodyUID, work, "for i in $(seq 100); do read x <OUTSIDE; done 2>/dev/null; true")
		begins := j.start().status() == 0
		rejected = j.out.String()
		return !begins
	})
	if !strings.Contains(rejected, "the events of a session couldn't be recorded") || !strings.Contains(rejected, "no space left") {
		t.Error(rejected)
	}
	must(t, os.WriteFile(confined.workspace+"/can", []byte("?"), 0o666))
	confined.wrote("can", "no")
	must(t, os.Remove(dir+"/ballast"))
	eventually(t, "sessions begin again", func() bool { return newJob(t, nobodyUID, work, "true").start().status() == 0 })
	must(t, confined.Process.Signal(syscall.SIGTERM))
	confined.status()
	if out := verified(t, state); !strings.Contains(out, "couldn't be kept") {
		t.Error(out)
	}
}

// The clock is set back and forth while sessions run: they stay enforced, no event is lost, and the events are ordered by number.
func TestClockJumps(t *testing.T) {
	state := t.TempDir()
	serve(t, state)
	j := newJob(t, nobodyUID, work, keepLooking).start()
	for _, by := range []time.Duration{-26 * time.Hour, 52 * time.Hour, -26 * time.Hour} {
		j.wrote("can", "no")
		before := len(auditOf(t, state, "denial"))
		now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		must(t, unix.ClockSettime(unix.CLOCK_REALTIME, &now))
		must(t, os.WriteFile(j.workspace+"/can", []byte("?"), 0o666))
		j.wrote("can", "no")
		eventually(t, "denials are reported", func() bool { return len(auditOf(t, state, "denial")) > before })
		if got := newJob(t, nobodyUID, work, "exit 7").start().status(); got != 7 {
			t.Errorf("after %v a session ends with %d", by, got)
		}
	}
	must(t, j.Process.Signal(syscall.SIGTERM))
	j.status()
	eventually(t, "the sessions' ends are recorded", func() bool { return len(auditOf(t, state, "session_end")) == 4 })
	out := verified(t, state)
	if !strings.Contains(out, "sound:") || strings.Contains(out, "lost") || strings.Contains(out, "uncounted") {
		t.Error(out)
	}
	// Events from when the clock was 26 hours back aren't of the last hour, those before and after are.
	text, code := ask(t, nobodyUID, "events", "--since", "1h", "--json", "--kind", "session_end")
	if code != 0 || strings.Count(text, "\n") < 1 || strings.Count(text, "\n") > 3 {
		t.Errorf("%d, %s", code, text)
	}
}

var kills = flag.Int("kills", 6, "how often toolguardd and the shipper are killed in a storm")

// toolguardd and the shipper are killed at random times while sessions cause denials as fast as they can: the audit is sound, the kernel has
// counted each session's denials, no more are reported and counted in gaps, and the receiver has every record, in order, some of them twice. The
// audit's files are small, because each toolguardd reads the last one at its start.
func TestKilledInAStorm(t *testing.T) {
	settings(t, "[audit]\nfile_size = 1048576\n")
	state := t.TempDir()
	s := serve(t, state)
	var list []*job
	for _, uid := range []uint32{nobodyUID, other, nobodyUID} {
		j := newJob(t, uid, work, `n=0
while [ ! -e stop ]; do read x <OUTSIDE; n=$((n+1)); done 2>/dev/null
echo $n >can`)
		list = append(list, j.floods(19))
	}
	eventually(t, "all have denials", func() bool { // one that is starting wouldn't survive
		return len(slices.DeleteFunc(sessions(t, 0), func(s api.Session) bool { return s.Denied == 0 })) == len(list)
	})
	shipped, ship := shipper(t, state)
	end := ship()
	pause := func() { time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) }
	for i := range *kills {
		pause()
		s.stop(syscall.SIGKILL)
		if i%5 == 4 {
			verified(t, state)
		}
		s = serve(t, state)
		pause()
		end()
		end = ship()
	}
	eventually(t, "the sessions are taken over", func() bool { return len(sessions(t, 0)) == len(list) })
	for _, j := range list {
		must(t, os.WriteFile(j.workspace+"/stop", nil, 0o644))
	}
	did, all := uint64(0), storm{}
	for _, j := range list {
		if got := j.status(); got != 0 {
			t.Fatalf("exit status %d", got)
		}
	}
	eventually(t, "their ends are recorded", func() bool { return len(auditOf(t, state, "session_end")) == len(list) })
	sums := summed(t, state)
	for _, j := range list {
		n, sum := j.did(), sums[j.reported()[0].Session]
		if sum.counted != n || sum.reported == 0 || sum.reported > n {
			t.Errorf("the session had %d denials, its end reports %d, and %d are reported", n, sum.counted, sum.reported)
		}
		did += n
	}
	for _, sum := range sums {
		all = all.and(sum)
	}
	t.Logf("%d kills of each: they did %d, the kernel counted %d; %d reported, %d counted in gaps, %d gaps without a number",
		*kills, did, all.counted, all.reported, all.gaps, all.inexact)
	if all.reported+all.gaps > did || all.reported+all.gaps < did && all.inexact == 0 {
		t.Errorf("of %d, %d were reported and %d counted, and %d gaps have no number", did, all.reported, all.gaps, all.inexact)
	}
	s.stop(syscall.SIGTERM)
	if out := verified(t, state); !strings.Contains(out, "sound:") {
		t.Error(out)
	}
	arrived(t, state, shipped)
}

// floods starts a job with a nice value, so that the other processes make progress.
func (j *job) floods(nice int) *job {
	j.t.Helper()
	j.Path, j.Args = "/usr/bin/nice", append([]string{"nice", "-n", fmt.Sprint(nice)}, j.Args...)
	return j.start()
}

// did is the number of denials that the command counted.
func (j *job) did() uint64 {
	j.t.Helper()
	text, err := os.ReadFile(j.workspace + "/can")
	must(j.t, err)
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	must(j.t, err)
	return n
}

// shipper is a shipper of the audit to a file. start starts it, end kills it.
func shipper(t *testing.T, state string) (file string, start func() (end func())) {
	t.Helper()
	dir := t.TempDir()
	file = dir + "/shipped"
	must(t, os.Mkdir(dir+"/state", 0o700))
	must(t, os.WriteFile(dir+"/ship.toml", fmt.Appendf(nil, "spool = '%s/audit'\nstate = '%s/state'\n[[sink]]\nname = 'file'\ntype = 'file'\npath = '%s'\nbatch = 5\n",
		state, dir, file), 0o600))
	return file, func() func() {
		cmd := exec.Command(built+"/toolguard-ship", "--config", dir+"/ship.toml")
		must(t, cmd.Start())
		end := func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		t.Cleanup(end)
		return end
	}
}

// arrived waits until a receiver's file has each record of an audit, in order. Duplicates must be equal, and don't count.
func arrived(t *testing.T, state, file string) {
	t.Helper()
	want, err := exec.Command(built+"/toolguard", "audit", "export", state+"/audit").Output()
	must(t, err)
	var got strings.Builder
	again := 0
	eventually(t, "all records have arrived", func() bool {
		text, err := os.ReadFile(file)
		must(t, err)
		got.Reset()
		seen := map[string]string{}
		again = 0
		for line := range strings.Lines(string(text)) {
			var e struct{ Metadata struct{ UID string } }
			if json.Unmarshal([]byte(line), &e) != nil {
				continue // the shipper was killed while it wrote this line
			}
			switch before, ok := seen[e.Metadata.UID]; {
			case !ok:
				got.WriteString(line)
			case before != line:
				t.Fatalf("%s came as two different records", e.Metadata.UID)
			default:
				again++
			}
			seen[e.Metadata.UID] = line
		}
		return got.Len() >= len(want)
	})
	t.Logf("%d records arrived, %d of them twice", strings.Count(got.String(), "\n"), again)
	if got.String() != string(want) {
		t.Error("the received records aren't those of the audit")
	}
}

// storm has the sums of a session's records in an audit.
type storm struct{ reported, gaps, counted, inexact uint64 }

func (s storm) and(o storm) storm {
	return storm{s.reported + o.reported, s.gaps + o.gaps, s.counted + o.counted, s.inexact + o.inexact}
}

// summed returns the sums of each session's records in an audit, and of those without a session ("").
func summed(t *testing.T, state string) map[string]storm {
	t.Helper()
	sums := map[string]storm{}
	eachRecord(t, state, func(e *record) {
		is, u := storm{}, &e.Unmapped
		switch {
		case u.Kind == "denial":
			is.reported = max(1, e.Count)
		case u.Kind == "gap" && u.Extra.Exact == "true":
			is.gaps = e.Count
		case u.Kind == "gap":
			is.inexact = 1
		case u.Kind == "session_end":
			is.counted = u.Exit.Denials
		}
		sums[u.Session] = sums[u.Session].and(is)
	})
	return sums
}

// record has the fields of an audit's record that these tests check.
type record struct {
	Time     int64
	Count    uint64
	Unmapped struct {
		Kind, Session, Target, Rule, Reason string
		Exit                                struct{ Denials uint64 }
		Extra                               struct{ Exact, What string }
	}
}

func eachRecord(t *testing.T, state string, do func(*record)) {
	t.Helper()
	readAudit(t, state, func(line []byte) {
		var e record
		must(t, json.Unmarshal(line, &e))
		do(&e)
	})
}

// memory returns the resident memory of a process, in bytes.
func memory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "statm"))
	must(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize())
}

// Several sessions cause denials as fast as they can, equal ones or different ones: denials that aren't reported are counted, the memory of
// toolguardd stays bounded, and other sessions' events arrive, and aren't recorded after many later ones. Meanwhile the sessions' policies change
// repeatedly, and each denial is described by the policy that decided.
func TestStorm(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	before := memory(t, s.Process.Pid)
	const flood = `python3 -S -E -c '
import os
n=0
while not os.path.exists("stop"):
	for i in range(1000):
		try: os.open(%s)
		except PermissionError: n+=1
open("can","w").write(str(n))'`
	var list []*job
	for i := range 2 {
		what := `"OUTSIDE", os.O_RDONLY`
		if i == 1 {
			what = `os.path.dirname("OUTSIDE")+"/events/x%d"%n, os.O_CREAT|os.O_WRONLY`
		}
		list = append(list, newJob(t, nobodyUID, work, strings.ReplaceAll(flood, "%s", what)).floods(5))
	}
	eventually(t, "all have many denials", func() bool {
		denied := slices.DeleteFunc(sessions(t, nobodyUID), func(s api.Session) bool { return s.Denied < 1000 })
		return len(denied) == len(list)
	})
	received := follow(t, other, "--kind", "denial")
	begin := time.Now()
	most, others := int64(0), map[string]bool{}
	quiet := func(seen func(target string) bool) {
		j := newJob(t, other, work, `read x <OUTSIDE; exit 7`)
		j.start().status()
		others[j.outside] = true
		if seen != nil {
			eventually(t, "the other user's denial is received", func() bool { return seen(j.outside) })
		}
	}
	eventually(t, "the subscription has begun", func() bool { // toolguard events prints nothing when it has subscribed
		quiet(nil)
		return len(received()) > 0
	})
	const another = work + "[[access.fs]]\npath = \"OUTSIDE\"\nexecute = true\n"
	reloads := 0
	for reloads < 2 || time.Since(begin) < 8*time.Second {
		quiet(func(target string) bool { return strings.Contains(fmt.Sprint(received()), target) })
		most = max(most, memory(t, s.Process.Pid))
		for _, x := range sessions(t, nobodyUID) {
			j := list[slices.IndexFunc(list, func(j *job) bool { return filepath.Dir(j.workspace) == x.Home })]
			file := j.write("../next.toml", []string{another, work}[reloads%2])
			if out, code := ask(t, nobodyUID, "sessions", "reload", x.ID, "--policy", file); code != 0 {
				t.Fatalf("reload: %d, %s", code, out)
			}
		}
		reloads++
	}
	for _, x := range sessions(t, nobodyUID) {
		if x.Reloads != reloads {
			t.Errorf("%d reloads, and %+v", reloads, x)
		}
	}
	did := uint64(0)
	for _, j := range list {
		must(t, os.WriteFile(j.workspace+"/stop", nil, 0o644))
	}
	spent := time.Since(begin)
	for _, j := range list {
		if got := j.status(); got != 0 {
			t.Errorf("exit status %d", got)
		}
		did += j.did()
	}
	eventually(t, "all ends are recorded", func() bool { return len(auditOf(t, state, "session_end")) == len(list)+len(others) })
	sums := summed(t, state)
	all := storm{gaps: sums[""].gaps}
	for _, j := range list {
		all = all.and(sums[j.reported()[0].Session])
	}
	overtaken, late := 0, time.Duration(0)
	happened, rules, changes := []int64{}, map[string]uint64{}, 0
	eachRecord(t, state, func(e *record) {
		switch u := &e.Unmapped; {
		case u.Extra.What == "the session's policy was changed":
			changes++
		case u.Kind == "denial" && u.Target == list[0].outside:
			rules[u.Rule+" "+u.Reason] += max(1, e.Count)
		case u.Kind == "denial" && others[u.Target]:
			n := 0
			for _, at := range happened {
				if at > e.Time {
					n++
					late = max(late, time.Duration(at-e.Time)*time.Millisecond)
				}
			}
			overtaken = max(overtaken, n)
		}
		happened = append(happened, e.Time)
	})
	t.Logf("%.0f denials a second: %d, of which %d were reported, %d counted in gaps and %d by the kernel; toolguardd used %d MiB, %d before; "+
		"before one of %d other sessions' records are %d of %d later ones, by %v at most",
		float64(did)/spent.Seconds(), did, all.reported, all.gaps, all.counted, most>>20, before>>20, len(others), overtaken, len(happened), late)
	if all.reported+all.gaps != all.counted || all.counted < did { // includes the denials of python's start
		t.Errorf("%d denials, %d reported, %d counted in gaps and %d by the kernel", did, all.reported, all.gaps, all.counted)
	}
	if changes != reloads*len(list) {
		t.Errorf("of %d reloads of %d sessions %d are recorded", reloads, len(list), changes)
	}
	if rules["fs.2 rule_denies"] == 0 || rules[" outside_workspace"] == 0 || len(rules) != 2 {
		t.Errorf("%d reloads, and the deciding rules are %v", reloads, rules)
	}
	if most > before+100<<20 {
		t.Errorf("toolguardd uses %d MiB, and used %d", most>>20, before>>20)
	}
	verified(t, state)
}
