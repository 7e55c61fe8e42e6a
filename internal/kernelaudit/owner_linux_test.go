package kernelaudit

import (
	"encoding/json"
	"testing"
	"time"
)

const (
	ownerUID, otherUID = 1000, 1001
	ownerPID           = 10
)

// ownerWatch returns a watch for an owner that has started pid 11. Processes from 100 on have ended.
func ownerWatch() *Watch {
	return &Watch{
		r: &Reader{makers: map[uint64]domain{}, starters: map[uint32]int{}}, deliver: func(Denial) {}, domains: map[uint64]*domainCount{},
		session: Session{Audit: NoSession, Name: "secret", Owner: &Owner{UID: ownerUID, PID: ownerPID, Runs: func(pid int) (bool, bool) {
			return pid == 11, pid < 100
		}}},
	}
}

// For an owner, a domain matches by its creator's name and user, not by a pid that may have been reused.
func TestOwnerDomains(t *testing.T) {
	for _, x := range []struct {
		name string
		made domain
		uid  int // of the denied process
		want bool
	}{
		{"the owner's", domain{pid: ownerPID, uid: ownerUID, comm: "secret"}, ownerUID, true},
		{"its child's", domain{pid: 11, uid: ownerUID, comm: "secret"}, ownerUID, true},
		{"of a process whose caller's record was lost", domain{pid: 11, uid: ownerUID, comm: "secret"}, -1, true},
		{"of another name", domain{pid: 11, uid: ownerUID, comm: "other"}, ownerUID, false},
		{"of the process that had the owner's pid before", domain{pid: ownerPID, uid: ownerUID, comm: "toolguard"}, ownerUID, false},
		{"of another user", domain{pid: ownerPID, uid: otherUID, comm: "secret"}, otherUID, false},
		{"of another user, with a denial of the owner", domain{pid: ownerPID, uid: otherUID, comm: "secret"}, ownerUID, false},
		{"another user in the owner's", domain{pid: ownerPID, uid: ownerUID, comm: "secret"}, otherUID, false},
		{"unknown", domain{}, ownerUID, false},
	} {
		w := ownerWatch()
		x.made.id = 7
		w.r.watches = []*Watch{w}
		w.r.recordDomain(x.made)
		if got := w.matches(&Denial{Source: Landlock, Domain: 7, UID: x.uid, Call: Call{Known: x.uid != -1}, PID: 11}); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// Denied system calls match by the audit session that the owner has begun, or by the process if it has begun none.
func TestOwnerSystemCalls(t *testing.T) {
	call := func(uid, pid int, session uint32) *Denial {
		return &Denial{Source: Seccomp, UID: uid, PID: pid, Session: session}
	}
	w := ownerWatch()
	for _, x := range []struct {
		denial       *Denial
		want         bool
		unattributed uint64
	}{
		{call(ownerUID, 11, NoSession), true, 0},
		{call(ownerUID, 12, NoSession), false, 0},
		{call(otherUID, 11, NoSession), false, 0},
		{call(otherUID, 100, NoSession), false, 0},
		{call(ownerUID, 100, NoSession), false, 1},
	} {
		if got := w.matches(x.denial); got != x.want || w.unattributed != x.unattributed {
			t.Errorf("%+v: %v, %d unattributed", x.denial, got, w.unattributed)
		}
	}
	if totals := w.totalsWithoutLoss(Totals{}); totals.Exact || totals.Why == "" {
		t.Errorf("with an unattributed call: %+v", totals)
	}

	w.recordLogin(5, 11)
	if w.session.Audit != NoSession {
		t.Error("another process's audit session counts")
	}
	w.recordLogin(6, ownerPID)
	for _, x := range []struct {
		denial *Denial
		want   bool
	}{
		{call(ownerUID, 100, 6), true},
		{call(ownerUID, 11, 5), false},
		{call(otherUID, 100, 6), false},
	} {
		if got := w.matches(x.denial); got != x.want {
			t.Errorf("in an audit session, %+v: %v", x.denial, got)
		}
	}
}

// The number of domains that a watch for an owner tracks is bounded, however many a confined program creates.
func TestDomainsPerOwnerAreBounded(t *testing.T) {
	w := ownerWatch()
	w.recordLogin(6, ownerPID)
	for id := range uint64(3 * maxTracked) {
		name := "secret"
		if id%2 == 0 {
			name = "nested"
		}
		made := domain{id: id, pid: 11, uid: ownerUID, comm: name}
		w.r.makers[id] = made
		w.recordDomain(made)
		w.handleDenial(Denial{Source: Landlock, Domain: id, Session: 6, UID: ownerUID, Call: Call{Known: true}})
		delete(w.r.makers, id)
	}
	if len(w.domains) > maxTracked || w.delivered != 3*maxTracked {
		t.Errorf("%d domains are tracked, and %d denials delivered", len(w.domains), w.delivered)
	}
}

// A denial is unchanged after JSON, with any bytes in its names.
func TestDenialInJSON(t *testing.T) {
	d := Denial{
		Time: time.Unix(1, 5000000).UTC(), Serial: 3, Source: Landlock, PID: 4, UID: -1, Session: NoSession, Exe: "/\xff", Comm: "a\nb", Domain: 1<<63 + 1,
		Blockers: []string{"fs.read_file"}, Path: "\x00\xff\xfe", PeerComm: "\x80", Call: Call{Arch: 1, Number: 2, Known: true},
	}
	text, err := json.Marshal(struct{ Denial *Denial }{&d})
	must(t, err)
	var got struct{ Denial *Denial }
	must(t, json.Unmarshal(text, &got))
	if again, _ := json.Marshal(got); string(again) != string(text) || got.Denial.Path != d.Path || got.Denial.Domain != d.Domain || got.Denial.Comm != d.Comm {
		t.Errorf("%s\n%+v", text, got.Denial)
	}
	if err := json.Unmarshal([]byte(`{"Denial":{"Path":7}}`), &got); err == nil {
		t.Error("a number was accepted as a name")
	}
}
