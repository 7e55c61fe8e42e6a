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

// Where the audit's disk is full no session begins, and those that run stay held, until it isn't.
func TestAuditDiskFull(t *testing.T) {
	daemontest.Needs(t)
	state := t.TempDir()
	dir := state + "/audit"
	must(t, os.Mkdir(dir, 0o700))
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	serve(t, state)
	held := newJob(t, nobody, work, keepLooking).start()
	held.wrote("can", "no")
	must(t, os.WriteFile(dir+"/ballast", make([]byte, 104<<10), 0o600))
	refused := ""
	eventually(t, "none begins", func() bool {
		j := newJob(t, nobody, work, "for i in $(seq 100); do read x <OUTSIDE; done 2>/dev/null; true")
		begins := j.start().status() == 0
		refused = j.out.String()
		return !begins
	})
	if !strings.Contains(refused, "the events of a session couldn't be recorded") || !strings.Contains(refused, "no space left") {
		t.Error(refused)
	}
	must(t, os.WriteFile(held.workspace+"/can", []byte("?"), 0o666))
	held.wrote("can", "no")
	must(t, os.Remove(dir+"/ballast"))
	eventually(t, "one begins again", func() bool { return newJob(t, nobody, work, "true").start().status() == 0 })
	must(t, held.Process.Signal(syscall.SIGTERM))
	held.status()
	if out := verified(t, state); !strings.Contains(out, "couldn't be kept") {
		t.Error(out)
	}
}

// The clock is set back and forth while sessions run: they stay held, nothing is lost, and the order of events is their numbers'.
func TestClockJumps(t *testing.T) {
	state := t.TempDir()
	serve(t, state)
	j := newJob(t, nobody, work, keepLooking).start()
	for _, by := range []time.Duration{-26 * time.Hour, 52 * time.Hour, -26 * time.Hour} {
		j.wrote("can", "no")
		told := len(auditOf(t, state, "denial"))
		now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		must(t, unix.ClockSettime(unix.CLOCK_REALTIME, &now))
		must(t, os.WriteFile(j.workspace+"/can", []byte("?"), 0o666))
		j.wrote("can", "no")
		eventually(t, "denials are told", func() bool { return len(auditOf(t, state, "denial")) > told })
		if got := newJob(t, nobody, work, "exit 7").start().status(); got != 7 {
			t.Errorf("after %v a session ends with %d", by, got)
		}
	}
	must(t, j.Process.Signal(syscall.SIGTERM))
	j.status()
	eventually(t, "the session's end is kept", func() bool { return len(auditOf(t, state, "session_end")) == 4 })
	out := verified(t, state)
	if !strings.Contains(out, "sound:") || strings.Contains(out, "lost") || strings.Contains(out, "uncounted") {
		t.Error(out)
	}
	// What was told while it was 26 hours ago isn't of the last hour, what was before and after is.
	text, code := ask(t, nobody, "events", "--since", "1h", "--json", "--kind", "session_end")
	if code != 0 || strings.Count(text, "\n") < 1 || strings.Count(text, "\n") > 3 {
		t.Errorf("%d, %s", code, text)
	}
}

var kills = flag.Int("kills", 6, "how often toolguardd and the shipper are killed in a storm")

// toolguardd and the shipper are killed again and again, whenever, while sessions are refused something as fast as they ask: the audit
// is sound, what the kernel has counted is what each session did, what was told and what gaps count isn't more, and the receiver has
// every record, in order, some of them twice. The audit's files are small: each toolguardd reads the last one as it starts.
func TestKilledInAStorm(t *testing.T) {
	settings(t, "[audit]\nfile_size = 1048576\n")
	state := t.TempDir()
	s := serve(t, state)
	var list []*job
	for _, uid := range []uint32{nobody, other, nobody} {
		j := newJob(t, uid, work, `n=0
while [ ! -e stop ]; do read x <OUTSIDE; n=$((n+1)); done 2>/dev/null
echo $n >can`)
		list = append(list, j.floods(19))
	}
	eventually(t, "they're refused", func() bool { return len(auditOf(t, state, "denial")) > len(list) })
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
	eventually(t, "they're taken over", func() bool { return len(sessions(t, 0)) == len(list) })
	for _, j := range list {
		must(t, os.WriteFile(j.workspace+"/stop", nil, 0o644))
	}
	did, all := uint64(0), storm{}
	for _, j := range list {
		if got := j.status(); got != 0 {
			t.Fatalf("exit status %d", got)
		}
	}
	eventually(t, "their ends are kept", func() bool { return len(auditOf(t, state, "session_end")) == len(list) })
	sums := summed(t, state)
	for _, j := range list {
		n, sum := j.did(), sums[j.told()[0].Session]
		if sum.counted != n || sum.told == 0 || sum.told > n {
			t.Errorf("the session was refused %d times, its end says %d, and %d are told", n, sum.counted, sum.told)
		}
		did += n
	}
	for _, sum := range sums {
		all = all.and(sum)
	}
	t.Logf("%d kills of each: they did %d, the kernel counted %d; %d told, %d counted in gaps, %d gaps that don't know",
		*kills, did, all.counted, all.told, all.gaps, all.inexact)
	if all.told+all.gaps > did || all.told+all.gaps < did && all.inexact == 0 {
		t.Errorf("of %d, %d were told and %d counted, and %d gaps don't know", did, all.told, all.gaps, all.inexact)
	}
	s.stop(syscall.SIGTERM)
	if out := verified(t, state); !strings.Contains(out, "sound:") {
		t.Error(out)
	}
	arrived(t, state, shipped)
}

// floods starts a job that asks as fast as it can. It's as nice as others need who are to get on meanwhile.
func (j *job) floods(nice int) *job {
	j.t.Helper()
	j.Path, j.Args = "/usr/bin/nice", append([]string{"nice", "-n", fmt.Sprint(nice)}, j.Args...)
	return j.start()
}

// did is how often the command says that it was refused.
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

// arrived waits until a receiver's file has each record of an audit, in order, when what came again is left out, which must be the same.
func arrived(t *testing.T, state, file string) {
	t.Helper()
	want, err := exec.Command(built+"/toolguard", "audit", "export", state+"/audit").Output()
	must(t, err)
	var got strings.Builder
	again := 0
	eventually(t, "all has arrived", func() bool {
		text, err := os.ReadFile(file)
		must(t, err)
		got.Reset()
		seen := map[string]string{}
		again = 0
		for line := range strings.Lines(string(text)) {
			var e struct{ Metadata struct{ UID string } }
			if json.Unmarshal([]byte(line), &e) != nil {
				continue // it was killed within it
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
		t.Error("what arrived isn't what the audit has")
	}
}

// storm is what an audit says of a session.
type storm struct{ told, gaps, counted, inexact uint64 }

func (s storm) and(o storm) storm {
	return storm{s.told + o.told, s.gaps + o.gaps, s.counted + o.counted, s.inexact + o.inexact}
}

// summed is what an audit says of each session, and, as "", of none.
func summed(t *testing.T, state string) map[string]storm {
	t.Helper()
	sums := map[string]storm{}
	eachRecord(t, state, func(e *record) {
		is, u := storm{}, &e.Unmapped
		switch {
		case u.Kind == "denial":
			is.told = max(1, e.Count)
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

// record is what these tests look at of one of an audit's.
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
	kept(t, state, func(line []byte) {
		var e record
		must(t, json.Unmarshal(line, &e))
		do(&e)
	})
}

// memory is how much a process takes, in bytes.
func memory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "statm"))
	must(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize())
}

// Several sessions are refused as fast as they ask, some of them always the same, others always something else: what isn't told is
// counted, toolguardd stays small, and others' events come, and aren't kept after many that happened later. Meanwhile they get other
// policies, again and again, and each denial is told by the one that decided it.
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
		list = append(list, newJob(t, nobody, work, strings.ReplaceAll(flood, "%s", what)).floods(5))
	}
	eventually(t, "all are refused", func() bool {
		refused := slices.DeleteFunc(sessions(t, nobody), func(s api.Session) bool { return s.Denied < 1000 })
		return len(refused) == len(list)
	})
	heard := follow(t, other, "--kind", "denial")
	begin := time.Now()
	most, others := int64(0), map[string]bool{}
	quiet := func(seen func(target string) bool) {
		j := newJob(t, other, work, `read x <OUTSIDE; exit 7`)
		j.start().status()
		others[j.outside] = true
		if seen != nil {
			eventually(t, "the other one's denial is told", func() bool { return seen(j.outside) })
		}
	}
	eventually(t, "it hears", func() bool { // it has nothing to say when it's ready
		quiet(nil)
		return len(heard()) > 0
	})
	const another = work + "[[access.fs]]\npath = \"OUTSIDE\"\nexecute = true\n"
	reloads := 0
	for reloads < 2 || time.Since(begin) < 8*time.Second {
		quiet(func(target string) bool { return strings.Contains(fmt.Sprint(heard()), target) })
		most = max(most, memory(t, s.Process.Pid))
		for _, x := range sessions(t, nobody) {
			j := list[slices.IndexFunc(list, func(j *job) bool { return filepath.Dir(j.workspace) == x.Home })]
			file := j.write("../next.toml", []string{another, work}[reloads%2])
			if out, code := ask(t, nobody, "sessions", "reload", x.ID, "--policy", file); code != 0 {
				t.Fatalf("reload: %d, %s", code, out)
			}
		}
		reloads++
	}
	for _, x := range sessions(t, nobody) {
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
	eventually(t, "all ends are kept", func() bool { return len(auditOf(t, state, "session_end")) == len(list)+len(others) })
	sums := summed(t, state)
	all := storm{gaps: sums[""].gaps}
	for _, j := range list {
		all = all.and(sums[j.told()[0].Session])
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
	t.Logf("%.0f denials a second: %d, of which %d were told, %d counted in gaps and %d by the kernel; toolguardd took %d MiB, %d before; "+
		"before one of %d others' stand %d of %d records that happened later, by %v at most",
		float64(did)/spent.Seconds(), did, all.told, all.gaps, all.counted, most>>20, before>>20, len(others), overtaken, len(happened), late)
	if all.told+all.gaps != all.counted || all.counted < did { // what python is refused as it starts is in it
		t.Errorf("%d denials, %d told, %d counted in gaps and %d by the kernel", did, all.told, all.gaps, all.counted)
	}
	if changes != reloads*len(list) {
		t.Errorf("of %d reloads of %d sessions %d are kept", reloads, len(list), changes)
	}
	if rules["fs.2 rule_denies"] == 0 || rules[" outside_workspace"] == 0 || len(rules) != 2 {
		t.Errorf("%d reloads, and what decided is %v", reloads, rules)
	}
	if most > before+100<<20 {
		t.Errorf("toolguardd takes %d MiB, and took %d", most>>20, before>>20)
	}
	verified(t, state)
}
