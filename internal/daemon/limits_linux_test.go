package daemon

import (
	"context"
	"testing"
	"time"
)

// One user takes no more than a user may, and takes nothing from another one.
func TestLimits(t *testing.T) {
	d := &Daemon{
		cfg:      Config{Limits: Limits{Sessions: 2, Lines: 100, Policies: 1000, Bodies: 1}},
		sessions: map[uint64]*session{}, starting: map[int]int{}, turns: map[int]chan struct{}{},
	}
	taken := &session{uid: 7}
	taken.lines.Store(60)
	taken.size.Store(600)
	d.sessions[1] = taken
	for _, x := range []struct {
		uid, lines, size int
		ok               bool
	}{{7, 40, 400, true}, {7, 41, 400, false}, {7, 40, 401, false}, {8, 100, 1000, true}, {8, 101, 0, false}} {
		done, err := d.reserve(x.uid, x.lines, x.size)
		if (err == nil) != x.ok {
			t.Errorf("%+v: %v", x, err)
		}
		if err == nil {
			done()
		}
	}
	done, err := d.reserve(7, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.reserve(7, 1, 1); err == nil {
		t.Error("a third session, with one that is being made")
	}
	done()
	if _, err := d.reserve(7, 1, 1); err != nil {
		t.Error(err)
	}
}

// Bodies of one user's requests are read one after the other, another one's beside them.
func TestTurns(t *testing.T) {
	d := &Daemon{cfg: Config{Limits: Limits{Bodies: 1}}, turns: map[int]chan struct{}{}}
	done, err := d.turn(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.turn(late, 7); err == nil {
		t.Error("two at a time")
	}
	if _, err := d.turn(t.Context(), 8); err != nil {
		t.Error(err)
	}
	done()
	if _, err := d.turn(t.Context(), 7); err != nil {
		t.Error(err)
	}
}
