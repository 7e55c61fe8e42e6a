package kernelaudit

import (
	"strings"
	"testing"
	"time"
)

// A signal by the session's starter is distinguished from one by the command, also if the record of the call was lost.
func TestSignalWithoutCaller(t *testing.T) {
	const starters, commands = `domain=1 `, `domain=2 `
	const signal, read = `blockers=scope.signal opid=1 ocomm="init"`, `blockers=fs.read_file path="/x" dev="vda" ino=1`
	for _, c := range []struct {
		name, denial string
		lost         bool
		want         int
	}{
		{"mark", starters + signal, true, 42},
		{"mark", commands + signal, true, 0},
		{"mark", starters + read, true, 0}, // of the command, by the starter's domain
		{"mark", starters + signal, false, 10755},
		{"", starters + signal, true, 0}, // the command is in the same domain
	} {
		r := &Reader{makers: map[uint64]domain{}}
		r.assembler = newAssembler(r.dispatch)
		var got []Denial
		w := &Watch{
			r: r, session: Session{Audit: NoSession, PID: 42, Name: c.name}, domains: map[uint64]*domainCount{},
			deliver: func(d Denial) { got = append(got, d) },
		}
		r.watches = []*Watch{w}
		feed := func(kind uint16, text string) {
			must(t, r.handleRecord(kind, "audit(1795248394.121:21): "+text))
		}
		feed(typeLandlockDomain, starters+`status=allocated mode=enforcing pid=42 uid=0 exe="/x" comm="toolguard"`)
		feed(typeLandlockDomain, commands+`status=allocated mode=enforcing pid=43 uid=0 exe="/x" comm="mark"`)
		w.domains[2] = &domainCount{} // seen before
		feed(typeLandlockAccess, c.denial)
		if !c.lost {
			must(t, r.handleRecord(typeSyscall, syscallText))
		}
		r.assembler.flush()
		if len(got) != 1 || got[0].PID != c.want || got[0].Nested {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// The first denial of a session matches also if the record of the call was lost.
func TestFirstWithoutCaller(t *testing.T) {
	const made = "audit(1795248394.121:21): domain=1e6f0d431 status=allocated mode=enforcing "
	for maker, want := range map[string]int{`pid=42 comm="toolguard"`: 1, `pid=43 comm="mark"`: 1, `pid=44 comm="x"`: 0} {
		r := &Reader{makers: map[uint64]domain{}, starters: map[uint32]int{3: 42}}
		r.assembler = newAssembler(r.dispatch)
		got := 0
		r.watches = []*Watch{{
			r: r, session: Session{Audit: 3, Name: "mark"}, domains: map[uint64]*domainCount{}, deliver: func(Denial) { got++ },
		}}
		for kind, text := range map[uint16]string{typeLandlockAccess: accessText, typeLandlockDomain: made + maker} {
			must(t, r.handleRecord(kind, text))
		}
		if r.assembler.flush(); got != want {
			t.Errorf("%s: %d, want %d", maker, got, want)
		}
	}
}

// A mark that arrives within a denied call doesn't separate the denial from the caller's record, which has the session.
func TestMarkWithinCall(t *testing.T) {
	came := make(chan struct{})
	r := &Reader{makers: map[uint64]domain{}, marks: map[string]chan struct{}{"toolguard-mark 1": came}}
	r.assembler = newAssembler(r.dispatch)
	var got []Denial
	r.watches = []*Watch{{
		r: r, session: Session{Audit: 3}, domains: map[uint64]*domainCount{}, deliver: func(d Denial) { got = append(got, d) },
	}}
	r.handleMessage(message{typeLandlockAccess, []byte(accessText)})
	r.handleMessage(message{typeTrustedApp, []byte("audit(1795248394.122:22): pid=1 uid=0 auid=0 ses=3 msg='toolguard-mark 1'")})
	r.handleMessage(message{typeSyscall, []byte(syscallText)})
	select {
	case <-came:
	default:
		t.Error("the mark wasn't received")
	}
	if len(got) != 1 || got[0].PID != 10755 || r.unread != 0 {
		t.Errorf("%+v, %d not read", got, r.unread)
	}
}

// A session is incomplete if auditing was off during it, and not if it was off before.
func TestAuditingDisabled(t *testing.T) {
	for after, lost := range map[time.Duration]bool{-time.Minute: true, time.Minute: false} {
		r := &Reader{}
		at := time.Unix(1795248394, 0)
		must(t, r.handleRecord(typeConfigChange, "audit(1795248394.121:21): op=set audit_backlog_limit=64 old=8192 auid=0 ses=1 res=1"))
		must(t, r.handleRecord(typeConfigChange, "audit(1795248394.121:22): op=set audit_enabled=0 old=1 auid=0 ses=1 res=1"))
		w := &Watch{r: r, began: at.Add(after)}
		if why := w.lossReason(0, nil); strings.Contains(why, "auditing was switched off") != lost || !lost && why != "" {
			t.Errorf("a session that began %v after it: %q", after, why)
		}
	}
}
