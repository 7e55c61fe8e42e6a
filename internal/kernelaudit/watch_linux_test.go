package kernelaudit

import "testing"

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
			if err := r.take(kind, "audit(1795248394.121:21): "+text); err != nil {
				t.Fatal(err)
			}
		}
		feed(typeLandlockDomain, starters+`status=allocated mode=enforcing pid=42 uid=0 exe="/x" comm="toolguard"`)
		feed(typeLandlockDomain, commands+`status=allocated mode=enforcing pid=43 uid=0 exe="/x" comm="mark"`)
		w.domains[2] = &tally{} // seen before
		feed(typeLandlockAccess, c.refused)
		if !c.lost {
			if err := r.take(typeSyscall, syscallText); err != nil {
				t.Fatal(err)
			}
		}
		r.asm.flush()
		if len(got) != 1 || got[0].PID != c.want || got[0].Nested {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
