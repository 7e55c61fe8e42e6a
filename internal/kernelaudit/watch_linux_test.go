package kernelaudit

import (
	"strings"
	"testing"
	"time"
)

// A signal by the session's starter is told from one by the command also when the record of the call was lost.
func TestSignalWithoutCaller(t *testing.T) {
	const starters, commands = `domain=1 `, `domain=2 `
	const signal, read = `blockers=scope.signal opid=1 ocomm="init"`, `blockers=fs.read_file path="/x" dev="vda" ino=1`
	for _, c := range []struct {
		name, refused string
		lost          bool
		want          int
	}{
		{"mark", starters + signal, true, 42},
		{"mark", commands + signal, true, 0},
		{"mark", starters + read, true, 0}, // of the command, by the starter's domain
		{"mark", starters + signal, false, 10755},
		{"", starters + signal, true, 0}, // the command is in the same domain
	} {
		r := &Reader{makers: map[uint64]domain{}}
		r.asm = newAssembler(r.dispatch)
		var got []Denial
		w := &Watch{
			r: r, session: Session{Audit: NoSession, PID: 42, Name: c.name}, domains: map[uint64]*tally{},
			deliver: func(d Denial) { got = append(got, d) },
		}
		r.watches = []*Watch{w}
		feed := func(kind uint16, text string) {
			must(t, r.take(kind, "audit(1795248394.121:21): "+text))
		}
		feed(typeLandlockDomain, starters+`status=allocated mode=enforcing pid=42 uid=0 exe="/x" comm="toolguard"`)
		feed(typeLandlockDomain, commands+`status=allocated mode=enforcing pid=43 uid=0 exe="/x" comm="mark"`)
		w.domains[2] = &tally{} // seen before
		feed(typeLandlockAccess, c.refused)
		if !c.lost {
			must(t, r.take(typeSyscall, syscallText))
		}
		r.asm.flush()
		if len(got) != 1 || got[0].PID != c.want || got[0].Nested {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// A session's refusals are its own also when nothing was seen of it before and the record of the call was lost.
func TestFirstWithoutCaller(t *testing.T) {
	const made = "audit(1795248394.121:21): domain=1e6f0d431 status=allocated mode=enforcing "
	for maker, want := range map[string]int{`pid=42 comm="toolguard"`: 1, `pid=43 comm="mark"`: 1, `pid=44 comm="x"`: 0} {
		r := &Reader{makers: map[uint64]domain{}, starters: map[uint32]int{3: 42}}
		r.asm = newAssembler(r.dispatch)
		got := 0
		r.watches = []*Watch{{
			r: r, session: Session{Audit: 3, Name: "mark"}, domains: map[uint64]*tally{}, deliver: func(Denial) { got++ },
		}}
		for kind, text := range map[uint16]string{typeLandlockAccess: accessText, typeLandlockDomain: made + maker} {
			must(t, r.take(kind, text))
		}
		if r.asm.flush(); got != want {
			t.Errorf("%s: %d, want %d", maker, got, want)
		}
	}
}

// A mark that comes back within a refused call doesn't part what was refused from who was: it's his record that has the session.
func TestMarkWithinACall(t *testing.T) {
	came := make(chan struct{})
	r := &Reader{makers: map[uint64]domain{}, marks: map[string]chan struct{}{"toolguard-mark 1": came}}
	r.asm = newAssembler(r.dispatch)
	var got []Denial
	r.watches = []*Watch{{
		r: r, session: Session{Audit: 3}, domains: map[uint64]*tally{}, deliver: func(d Denial) { got = append(got, d) },
	}}
	r.handle(message{typeLandlockAccess, []byte(accessText)})
	r.handle(message{typeTrustedApp, []byte("audit(1795248394.122:22): pid=1 uid=0 auid=0 ses=3 msg='toolguard-mark 1'")})
	r.handle(message{typeSyscall, []byte(syscallText)})
	select {
	case <-came:
	default:
		t.Error("the mark isn't known")
	}
	if len(got) != 1 || got[0].PID != 10755 || r.unread != 0 {
		t.Errorf("%+v, %d not read", got, r.unread)
	}
}

// What wasn't recorded while auditing was off is a loss, unless that was before the session.
func TestSwitchedOff(t *testing.T) {
	for after, lost := range map[time.Duration]bool{-time.Minute: true, time.Minute: false} {
		r := &Reader{}
		at := time.Unix(1795248394, 0)
		must(t, r.take(typeConfigChange, "audit(1795248394.121:21): op=set audit_backlog_limit=64 old=8192 auid=0 ses=1 res=1"))
		must(t, r.take(typeConfigChange, "audit(1795248394.121:22): op=set audit_enabled=0 old=1 auid=0 ses=1 res=1"))
		w := &Watch{r: r, began: at.Add(after)}
		if why := w.lost(0, nil); strings.Contains(why, "switched auditing off") != lost || !lost && why != "" {
			t.Errorf("a session that began %v after it: %q", after, why)
		}
	}
}
