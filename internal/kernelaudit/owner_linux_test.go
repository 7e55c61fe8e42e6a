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

// owned is a watch for another process, which has started pid 11, of the processes that are there.
func owned() *Watch {
	return &Watch{
		r: &Reader{makers: map[uint64]domain{}, starters: map[uint32]int{}}, deliver: func(Denial) {}, domains: map[uint64]*tally{},
		session: Session{Audit: NoSession, Name: "secret", Owner: &Owner{UID: ownerUID, PID: ownerPID, Runs: func(pid int) (bool, bool) {
			return pid == 11, pid < 100
		}}},
	}
}

// A watch for another process has its domains by their maker's name and user: its number may be another's by now.
func TestOwnersDomains(t *testing.T) {
	for _, x := range []struct {
		name string
		made domain
		uid  int // of who was denied something
		want bool
	}{
		{"the owner's", domain{pid: ownerPID, uid: ownerUID, comm: "secret"}, ownerUID, true},
		{"its child's", domain{pid: 11, uid: ownerUID, comm: "secret"}, ownerUID, true},
		{"of a process whose caller's record was lost", domain{pid: 11, uid: ownerUID, comm: "secret"}, -1, true},
		{"of another name", domain{pid: 11, uid: ownerUID, comm: "other"}, ownerUID, false},
		{"of who had the owner's number before", domain{pid: ownerPID, uid: ownerUID, comm: "toolguard"}, ownerUID, false},
		{"of another user", domain{pid: ownerPID, uid: otherUID, comm: "secret"}, otherUID, false},
		{"of another user, and the owner is denied something", domain{pid: ownerPID, uid: otherUID, comm: "secret"}, ownerUID, false},
		{"another user in the owner's", domain{pid: ownerPID, uid: ownerUID, comm: "secret"}, otherUID, false},
		{"of nobody", domain{}, ownerUID, false},
	} {
		w := owned()
		x.made.id = 7
		w.r.watches = []*Watch{w}
		w.r.takeDomain(x.made)
		if got := w.concerns(&Denial{Source: Landlock, Domain: 7, UID: x.uid, Call: Call{Known: x.uid != -1}, PID: 11}); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// Denied system calls are the owner's by the audit session that it has begun, or by the process where it has begun none.
func TestOwnersCalls(t *testing.T) {
	call := func(uid, pid int, session uint32) *Denial {
		return &Denial{Source: Seccomp, UID: uid, PID: pid, Session: session}
	}
	w := owned()
	for _, x := range []struct {
		denial *Denial
		want   bool
		unsure uint64
	}{
		{call(ownerUID, 11, NoSession), true, 0},
		{call(ownerUID, 12, NoSession), false, 0},
		{call(otherUID, 11, NoSession), false, 0},
		{call(otherUID, 100, NoSession), false, 0},
		{call(ownerUID, 100, NoSession), false, 1},
	} {
		if got := w.concerns(x.denial); got != x.want || w.unsure != x.unsure {
			t.Errorf("%+v: %v, %d unsure", x.denial, got, w.unsure)
		}
	}
	if totals := w.nothingLost(Totals{}); totals.Exact || totals.Why == "" {
		t.Errorf("with one of which it isn't known: %+v", totals)
	}

	w.takeLogin(5, 11)
	if w.session.Audit != NoSession {
		t.Error("another process's audit session counts")
	}
	w.takeLogin(6, ownerPID)
	for _, x := range []struct {
		denial *Denial
		want   bool
	}{
		{call(ownerUID, 100, 6), true},
		{call(ownerUID, 11, 5), false},
		{call(otherUID, 100, 6), false},
	} {
		if got := w.concerns(x.denial); got != x.want {
			t.Errorf("in an audit session, %+v: %v", x.denial, got)
		}
	}
}

// However many domains a confined program makes, the one who reads for others keeps nothing of them.
func TestOthersDomainsAreNotKept(t *testing.T) {
	w := owned()
	w.takeLogin(6, ownerPID)
	for id := range uint64(3 * maxRemembered) {
		name := "secret"
		if id%2 == 0 {
			name = "nested"
		}
		made := domain{id: id, pid: 11, uid: ownerUID, comm: name}
		w.r.makers[id] = made
		w.takeDomain(made)
		w.take(Denial{Source: Landlock, Domain: id, Session: 6, UID: ownerUID, Call: Call{Known: true}})
		delete(w.r.makers, id)
	}
	if len(w.domains) > maxRemembered || w.count != 3*maxRemembered {
		t.Errorf("%d domains are kept, and %d denials came", len(w.domains), w.count)
	}
}

// A denial in JSON is what it was: names are any bytes.
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
		t.Error("a number is taken for a name")
	}
}
