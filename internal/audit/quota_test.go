package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
)

// of returns an event of a user's session.
func of(uid int, kind event.Kind) event.Event {
	e := denial(uid)
	e.Kind, e.Owner, e.Session = kind, fmt.Sprint(uid), fmt.Sprintf("session%d", uid)
	return e
}

// flood records n denials of a user, and returns when they are on the disk.
func flood(t *testing.T, l *Log, uid, n int) {
	t.Helper()
	for i := range n {
		e := of(uid, event.Denial)
		l.Record(&e)
		if i%100 == 99 {
			_ = l.Sync()
		}
	}
	must(t, l.Sync())
}

// sessionCounts counts a user's records in a spool.
type sessionCounts struct {
	bytes               int64
	denials, gaps       uint64
	begins, ends        int
	inexact, gapRecords int
}

func countByOwner(t *testing.T, dir string) map[string]*sessionCounts {
	t.Helper()
	all := map[string]*sessionCounts{}
	for line := range bytes.Lines(allRecords(t, dir)) {
		e, err := event.Parse(line)
		must(t, err)
		u := all[e.Owner]
		if u == nil {
			u = &sessionCounts{}
			all[e.Owner] = u
		}
		u.bytes += int64(len(line))
		switch e.Kind {
		case event.Denial:
			u.denials += max(1, e.Count)
		case event.Gap:
			u.gaps += e.Count
			u.gapRecords++
			if e.Extra["exact"] != "true" {
				u.inexact++
			}
		case event.SessionStart:
			u.begins++
		case event.SessionEnd:
			u.ends++
		}
	}
	return all
}

// TestQuota floods the audit with the denials of one user. The sessions of other users may start, and their events are stored. The
// spool stores the flooding user's events up to his quota, and counts the rest.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	const size, many = 2 << 20, 4000
	l := Start(Config{Folder: dir, Limits: Limits{Size: size}})
	start, end := of(1, event.SessionStart), of(1, event.SessionEnd)
	l.Record(&start)
	flood(t, l, 1, many)
	var share *QuotaError
	rejected := func(uid int) bool { return errors.As(l.ReadyFor(uid), &share) }
	if !rejected(1) || share.Owner != "1" || share.Used > size/2 {
		t.Errorf("the user who floods may start sessions: %v", l.ReadyFor(1))
	}
	for _, uid := range []int{0, 2} {
		if err := l.ReadyFor(uid); err != nil {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	flood(t, l, 2, 10)
	l.Record(&end)
	_, _ = l.Close()
	sound(t, dir)
	got := countByOwner(t, dir)
	if u := got["1"]; u.denials+u.gaps != many || u.gaps == 0 || u.begins+u.ends != 2 || u.inexact > 0 || u.gapRecords > 2 || u.bytes > size/2 {
		t.Errorf("of the user who floods: %+v", u)
	}
	if u := got["2"]; u.denials != 10 || u.gaps > 0 {
		t.Errorf("of the other user: %+v", u)
	}

	// The next log has the usage, with and without the stored file.
	for _, removeUsage := range []bool{false, true} {
		if removeUsage {
			must(t, os.Remove(filepath.Join(dir, usageName)))
		}
		l = Start(Config{Folder: dir, Limits: Limits{Size: size}})
		flood(t, l, 0, 1) // opens the spool
		if !rejected(1) || rejected(2) {
			t.Errorf("after a restart: %v, %v", l.ReadyFor(1), l.ReadyFor(2))
		}
		_, _ = l.Close()
	}

	// There is capacity for the next user and for root after any number of users.
	l = Start(Config{Folder: dir, Limits: Limits{Size: size}})
	for uid := 3; uid < 9; uid++ {
		flood(t, l, uid, many/4)
		if !rejected(uid) {
			t.Errorf("user %d may start sessions", uid)
		}
	}
	for _, uid := range []int{0, 9} {
		if err := l.ReadyFor(uid); err != nil {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	_, _ = l.Close()
	for uid := 3; uid < 9; uid++ {
		if u := countByOwner(t, dir)[fmt.Sprint(uid)]; u.denials+u.gaps != many/4 {
			t.Errorf("user %d: %+v", uid, u)
		}
	}
	sound(t, dir)
}

// TestQuotaRegained checks that a user below the quota is recorded again, after a gap with the events that were counted meanwhile.
func TestQuotaRegained(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir, Limits: Limits{Size: 1 << 20}})
	flood(t, l, 1, 2000)
	if err := l.ReadyFor(1); err == nil {
		t.Fatal("the user still exceeds his quota")
	}
	gap := of(1, event.Gap)
	gap.Count, gap.Extra = 5, map[string]string{"exact": "false"}
	l.Record(&gap)
	l.SetLimits(Limits{Size: 16 << 20})
	flood(t, l, 1, 1)
	must(t, l.ReadyFor(1))
	if u := countByOwner(t, dir)["1"]; u.denials+u.gaps != 2006 || u.gaps == 0 || u.inexact != 1 {
		t.Errorf("%+v", u)
	}
	_, _ = l.Close()
	sound(t, dir)
}

// TestQuotaWithDrop checks that with Limits.Drop, a flood doesn't displace other users' events.
func TestQuotaWithDrop(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir, Limits: Limits{Size: 1 << 20, Drop: true}})
	flood(t, l, 2, 10)
	flood(t, l, 1, 5000)
	_, _ = l.Close()
	got := countByOwner(t, dir)
	if u := got["2"]; u == nil || u.denials != 10 {
		t.Errorf("of the other user: %+v", u)
	}
	if u := got["1"]; u.denials+u.gaps != 5000 || u.bytes > 300<<10 {
		t.Errorf("of the user who floods: %+v", u)
	}
	sound(t, dir)
}

// TestOwnerOf checks that no string in an event is mistaken for its owner.
func TestOwnerOf(t *testing.T) {
	e := of(7, event.Denial)
	e.Tool, e.Session, e.Target = `x","owner":"0`, `","owner":"1`, `,"owner":"2"`
	e.Process[0].Comm = `,"owner":"3"`
	if got := ownerOf(event.OCSF.Append(nil, &e)); got != "7" {
		t.Errorf("owner %q", got)
	}
	e.Owner = ""
	if got := ownerOf(event.OCSF.Append(nil, &e)); got != "" {
		t.Errorf("owner %q", got)
	}
}

// TestPrune checks that the oldest files are removed, that this is recorded, and that their space is free again.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir, Limits: Limits{Size: 1 << 20, FileSize: 64 << 10}})
	flood(t, l, 1, 2000)
	before := l.Usage()
	if l.ReadyFor(1) == nil || before.OverQuota == 0 || before.Files < 4 || before.Lost > 0 || before.Size != 1<<20 || before.OverQuota != 2000-countByOwner(t, dir)["1"].denials {
		t.Fatalf("%+v", before)
	}
	if err := l.Prune(before.Bytes); err != nil || l.Usage().Files != before.Files {
		t.Errorf("a file was removed without need: %v, %+v", err, l.Usage())
	}
	for _, keep := range []int64{200 << 10, 0} {
		must(t, l.Prune(keep))
		if u := l.Usage(); u.Bytes > keep+8<<10 || u.Records < before.Records {
			t.Errorf("%+v of %+v", u, before)
		}
		must(t, l.ReadyFor(1))
		if r := sound(t, dir); r.Removed == 0 || r.Gaps == 0 {
			t.Errorf("%+v", r)
		}
	}
	flood(t, l, 1, 10)
	_, _ = l.Close()
	r := sound(t, dir)
	if u := countByOwner(t, dir)["1"]; u.denials != 10 || r.Files != 1 || r.Inexact > 0 {
		t.Errorf("%+v, %+v", u, r)
	}
	list, err := files(dir)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if text := allRecords(t, dir); !bytes.Contains(text, []byte("were removed by 'toolguard audit prune'")) {
		t.Errorf("%s", text)
	}
}

// TestCloseReportsLosses checks that a full spool reports the lost events when it is closed.
func TestCloseReportsLosses(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir, Version: "test", Limits: Limits{Size: 64 << 10}})
	n := 0
	for n < 1000 && recordOne(l, n) == nil {
		n++
	}
	var full *FullError
	for _, uid := range []int{0, 1000} {
		if err := l.ReadyFor(uid); !errors.As(err, &full) {
			t.Errorf("a session of user %d may begin: %v", uid, err)
		}
	}
	missing, err := l.Close()
	if missing != 1 || !errors.As(err, &full) {
		t.Fatal(missing, err)
	}
	if r := sound(t, dir); r.Inexact != 1 {
		t.Errorf("%+v", r)
	}
	if text := readFile(t, lastFile(t, dir)); !bytes.Contains(text, []byte("up to 1 events that it had received are missing")) {
		t.Errorf("%s", text)
	}
}
