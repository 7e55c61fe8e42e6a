//go:build linux

package daemon

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is a small disk for a toolguardd's audit.
func disk(t *testing.T, state string, flags uintptr) string {
	t.Helper()
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	dir := state + "/audit"
	must(t, os.Mkdir(dir, 0o700))
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", flags, "size=128k"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// noneBegins waits until no session begins, and makes sure that it's told why.
func noneBegins(t *testing.T, why string) {
	t.Helper()
	refused := ""
	eventually(t, "none begins", func() bool {
		j := newJob(t, nobody, work, "for i in $(seq 100); do read x <OUTSIDE; done 2>/dev/null; true")
		if j.start().status() == 0 {
			return false
		}
		refused = j.out.String()
		return true
	})
	if !strings.Contains(refused, "what happens in a session couldn't be kept") || !strings.Contains(refused, why) {
		t.Error(refused)
	}
}

func oneBegins(t *testing.T) {
	t.Helper()
	eventually(t, "one begins again", func() bool { return newJob(t, nobody, work, "true").start().status() == 0 })
}

// Where the audit's disk is full no session begins, and those that run stay held, until it isn't.
func TestAuditDiskFull(t *testing.T) {
	state := t.TempDir()
	dir := disk(t, state, 0)
	serve(t, state)
	held := newJob(t, nobody, work, keepLooking).start()
	held.wrote("can", "no")
	must(t, os.WriteFile(dir+"/ballast", make([]byte, 104<<10), 0o600))
	noneBegins(t, "no space left")
	must(t, os.WriteFile(held.workspace+"/can", []byte("?"), 0o666))
	held.wrote("can", "no")
	must(t, os.Remove(dir+"/ballast"))
	oneBegins(t)
	must(t, held.Process.Signal(syscall.SIGTERM))
	held.status()
	if out := verified(t, state); !strings.Contains(out, "couldn't be kept") {
		t.Error(out)
	}
}

// Where it's read-only none begins, until it can be written.
func TestAuditDiskReadOnly(t *testing.T) {
	state := t.TempDir()
	dir := disk(t, state, syscall.MS_RDONLY)
	serve(t, state)
	noneBegins(t, "read-only file system")
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""))
	oneBegins(t)
	if out := verified(t, state); !strings.Contains(out, "sound:") {
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
		told := len(auditOf(t, state, "--kind", "denial"))
		now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		must(t, unix.ClockSettime(unix.CLOCK_REALTIME, &now))
		must(t, os.WriteFile(j.workspace+"/can", []byte("?"), 0o666))
		j.wrote("can", "no")
		eventually(t, "denials are told", func() bool { return len(auditOf(t, state, "--kind", "denial")) > told })
		if got := newJob(t, nobody, work, "exit 7").start().status(); got != 7 {
			t.Errorf("after %v a session ends with %d", by, got)
		}
	}
	must(t, j.Process.Signal(syscall.SIGTERM))
	j.status()
	eventually(t, "the session's end is kept", func() bool { return len(auditOf(t, state, "--kind", "session_end")) == 4 })
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

// toolguardd is killed a hundred times, whenever, while a session is refused something as fast as it asks: the audit is sound, and what the
// kernel has counted is what the session did. What was told and what gaps count isn't more.
func TestKilledInAStorm(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	j := newJob(t, nobody, work, `n=0
while [ ! -e stop ]; do read x <OUTSIDE; n=$((n+1)); done 2>/dev/null
echo $n >can`).start()
	eventually(t, "it's refused", func() bool { return len(auditOf(t, state, "--kind", "denial")) > 0 })
	const kills = 100
	for i := range kills {
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		s.stop(syscall.SIGKILL)
		if i%10 == 9 {
			verified(t, state)
		}
		s = serve(t, state)
	}
	eventually(t, "it's taken over", func() bool { return len(sessions(t, 0)) == 1 })
	must(t, os.WriteFile(j.workspace+"/stop", nil, 0o644))
	if got := j.status(); got != 0 {
		t.Fatalf("exit status %d", got)
	}
	text, err := os.ReadFile(j.workspace + "/can")
	must(t, err)
	did, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	must(t, err)
	eventually(t, "its end is kept", func() bool { return len(auditOf(t, state, "--kind", "session_end")) == 1 })
	sum := summed(t, state, j.outside)
	t.Logf("%d kills: it did %d, the kernel counted %d; %d told, %d counted in gaps, %d gaps that don't know", kills, did, sum.counted, sum.told, sum.gaps, sum.inexact)
	if sum.counted != did {
		t.Errorf("the session was refused %d times, and its end says %d", did, sum.counted)
	}
	if sum.told == 0 || sum.told+sum.gaps > did || sum.told+sum.gaps < did && sum.inexact == 0 {
		t.Errorf("of %d, %d were told and %d counted, and %d gaps don't know", did, sum.told, sum.gaps, sum.inexact)
	}
	s.stop(syscall.SIGTERM)
	if out := verified(t, state); !strings.Contains(out, "sound:") {
		t.Error(out)
	}
}

// storm is what an audit says of one session that was refused one thing.
type storm struct{ told, gaps, counted, inexact uint64 }

func summed(t *testing.T, state, target string) (sum storm) {
	t.Helper()
	out, err := exec.Command(built+"/toolguard", "audit", "export", state+"/audit").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		var e struct {
			Count    uint64
			Unmapped struct {
				Kind, Target string
				Exit         struct{ Denials uint64 }
				Extra        struct{ Exact string }
			}
		}
		must(t, json.Unmarshal([]byte(line), &e))
		switch u := e.Unmapped; {
		case u.Kind == "denial" && u.Target == target:
			sum.told += max(1, e.Count)
		case u.Kind == "gap" && u.Extra.Exact == "true":
			sum.gaps += e.Count
		case u.Kind == "gap":
			sum.inexact++
		case u.Kind == "session_end":
			sum.counted = u.Exit.Denials
		}
	}
	return sum
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

// Several sessions are refused as fast as they ask: what isn't told is counted, toolguardd stays small, and others' events come.
func TestStorm(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	before := memory(t, s.Process.Pid)
	const flood = `python3 -c '
import os
n=0
while not os.path.exists("stop"):
	for i in range(1000):
		try: os.open("OUTSIDE", os.O_RDONLY)
		except PermissionError: n+=1
open("can","w").write(str(n))'`
	var list []*job
	for range 4 {
		list = append(list, newJob(t, nobody, work, flood).start())
	}
	heard := follow(t, other, "--kind", "denial")
	begin := time.Now()
	most, slowest, others := int64(0), time.Duration(0), 0
	eventually(t, "it hears", func() bool { // it has nothing to say when it's ready
		newJob(t, other, work, `read x <OUTSIDE; exit 7`).start().status()
		others++
		return len(heard()) > 0
	})
	for time.Since(begin) < 30*time.Second {
		j := newJob(t, other, work, `read x <OUTSIDE; exit 7`)
		j.start().status()
		others++
		at := time.Now()
		eventually(t, "the other one's denial is told", func() bool { return strings.Contains(fmt.Sprint(heard()), j.outside) })
		slowest = max(slowest, time.Since(at))
		most = max(most, memory(t, s.Process.Pid))
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
		text, err := os.ReadFile(j.workspace + "/can")
		must(t, err)
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		must(t, err)
		did += n
	}
	eventually(t, "all ends are kept", func() bool { return len(auditOf(t, state, "--kind", "session_end")) == len(list)+others })
	sum := storm{}
	for _, j := range list {
		sum.told += summed(t, state, j.outside).told
	}
	sum.gaps = summed(t, state, "").gaps
	t.Logf("%.0f denials a second: %d, of which %d were told and %d counted; toolguardd took %d MiB, %d before; the slowest of %d others' came after %v",
		float64(did)/spent.Seconds(), did, sum.told, sum.gaps, most>>20, before>>20, others, slowest)
	if sum.told+sum.gaps != did {
		t.Errorf("%d denials, %d told and %d counted", did, sum.told, sum.gaps)
	}
	if most > before+100<<20 {
		t.Errorf("toolguardd takes %d MiB, and took %d", most>>20, before>>20)
	}
	if slowest > time.Minute {
		t.Errorf("another one's event came after %v", slowest)
	}
	verified(t, state)
}
