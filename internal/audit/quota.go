package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/toolguard/toolguard/internal/event"
)

// Whoever is refused something fills the audit with it, and a full audit lets no session begin. So no user's events may take more than he
// leaves: of what is free without his own, half. A second user has a quarter then, and so on: there's always something left for who
// comes next. Where the oldest file goes instead, what is free says nothing, and it's a quarter of all for each.
//
// What is beyond isn't kept, but counted, for each session; starts and ends of sessions are always kept, and no session of such a user's
// begins. Root isn't bounded, nor is what every sink has.

// takenName is the file that says whose lines take how much of the finished files. It saves reading them.
const takenName = "taken"

// taken is how many bytes are of each user's sessions.
type taken map[string]int64

func (t taken) add(others taken) {
	for owner, n := range others {
		t[owner] += n
	}
}

// ShareError says that a user has his share of a spool.
type ShareError struct {
	Owner     string
	Used, May int64
}

func (e *ShareError) Error() string {
	return fmt.Sprintf("the events of user %s's sessions take %d bytes of the audit, and one user's may take %d now: "+
		"root makes room with 'toolguard audit prune', a larger [audit] size, or sinks", e.Owner, e.Used, e.May)
}

// reckon finds out whose lines take how much of what must be kept.
func (s *Spool) reckon() {
	s.held, s.heldBy = s.done.offset, taken{}
	s.heldBy.add(s.taken)
	shipped := s.shippedTo()
	for _, p := range s.parts {
		if p.number >= shipped {
			s.held += p.size
			s.heldBy.add(p.taken)
		}
	}
}

// shareOf is what a user's events take, and what they may.
func (s *Spool) shareOf(owner string) (used, may int64) {
	used = s.heldBy[owner] + s.adding[owner]
	room := s.Limits.Size / 10 * 9
	if s.Limits.Drop {
		return used, room / 4
	}
	return used, (room - (s.held + int64(len(s.buf)) - used)) / 2
}

// withholds tells whether an event is to be counted only.
func (s *Spool) withholds(e *event.Event) bool {
	if !e.FromOrdinaryUser() || e.Kind == event.SessionStart || e.Kind == event.SessionEnd {
		return false
	}
	used, may := s.shareOf(e.Owner)
	return used >= may
}

// withhold counts an event for the gap of its session, which is told at once, and then at the session's end, or when its user has a share again.
func (s *Spool) withhold(e *event.Event) {
	gap := s.withheld[e.Session]
	if gap == nil {
		used, _ := s.shareOf(e.Owner)
		gap = &event.Event{
			Kind: event.Gap, Mechanism: "spool", Session: e.Session, Owner: e.Owner, Tool: e.Tool, Agent: e.Agent, Mode: e.Mode,
			Policy: e.Policy, Digest: e.Digest, Extra: map[string]string{
				"why": fmt.Sprintf("user %s's events take %d bytes, which is his share of the audit", e.Owner, used), "exact": "true",
			},
		}
		s.withheld[e.Session] = gap
	}
	n := max(1, e.Count)
	if e.Kind == event.Gap {
		n = e.Count
	}
	if e.Kind == event.Gap && e.Extra["exact"] != "true" {
		gap.Extra["exact"] = "false"
	}
	if gap.Count == 0 {
		gap.First = e.Time
	}
	gap.Count, gap.Execs, gap.Time = gap.Count+n, gap.Execs+e.ExecCount(), e.Time
	s.beyond += n
}

// addWithheld puts what is counted of a session into the buffer.
func (s *Spool) addWithheld(session string, into map[string]bool) {
	gap := s.withheld[session]
	if gap == nil || into[session] {
		return
	}
	if gap.Count > 0 {
		s.add(gap)
	}
	into[session] = true
}

// settle is for what has been written: of these sessions nothing is counted any more, and these events are.
func (s *Spool) settle(told map[string]bool, withheld []*event.Event) {
	for session := range told {
		delete(s.withheld, session)
	}
	fresh := map[string]bool{}
	for _, e := range withheld {
		fresh[e.Session] = fresh[e.Session] || s.withheld[e.Session] == nil
		s.withhold(e)
	}
	for session, first := range fresh {
		if gap := s.withheld[session]; first {
			s.owed = append(s.owed, *gap)
			gap.Count, gap.Execs = 0, 0
		}
	}
}

// ownerOf is whose a line is.
func ownerOf(line []byte) string {
	_, rest, ok := bytes.Cut(line, []byte(`,"owner":"`)) // in what others said the quotation marks have backslashes
	owner, _, _ := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return ""
	}
	return string(owner)
}

// saveTaken keeps whose lines are in the finished files. Where it can't be they're read again.
func (s *Spool) saveTaken() {
	all := map[uint64]taken{}
	for _, p := range s.parts {
		all[p.number] = p.taken
	}
	if text, err := json.Marshal(all); err == nil {
		_ = Replace(s.path(takenName), append(text, '\n'))
	}
}

// loadTaken finds out whose lines are there.
func (s *Spool) loadTaken() error {
	s.taken, s.adding, s.withheld = taken{}, taken{}, map[string]*event.Event{}
	var known map[uint64]taken
	if text, err := os.ReadFile(s.path(takenName)); err == nil {
		_ = json.Unmarshal(text, &known) // what isn't known is found out
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.taken = known[p.number]; p.taken != nil {
			continue
		}
		var err error
		if p.taken, err = s.scanTaken(p.number); err != nil {
			return err
		}
	}
	if s.file == nil {
		return nil
	}
	var err error
	s.taken, err = s.scanTaken(s.number)
	return err
}

func (s *Spool) scanTaken(number uint64) (taken, error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	by := taken{}
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := readLine(r)
		if owner := ownerOf(line); owner != "" {
			by[owner] += int64(len(line))
		}
		if errors.Is(err, io.EOF) {
			return by, nil
		} else if err != nil && !errors.Is(err, errLong) {
			return nil, err
		}
	}
}
