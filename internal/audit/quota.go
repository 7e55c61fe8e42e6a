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

// usageName is the file with the users' bytes in the finished files. It saves reading them.
const usageName = "taken"

// userBytes is the size of the records of each user's sessions.
type userBytes map[string]int64

func (t userBytes) add(others userBytes) {
	for owner, n := range others {
		t[owner] += n
	}
}

// QuotaError is the error for a user who has reached the quota.
type QuotaError struct {
	Owner       string
	Used, Quota int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the events of user %s's sessions take %d bytes of the audit, and the current quota of a user is %d: "+
		"root frees space with 'toolguard audit prune', a larger [audit] size, or sinks", e.Owner, e.Used, e.Quota)
}

// measure computes how much of the retained bytes belongs to each user.
func (s *Spool) measure() {
	s.retained, s.retainedUsage = s.synced.offset, userBytes{}
	s.retainedUsage.add(s.fileUsage)
	shipped := s.shippedTo()
	for _, p := range s.finished {
		if p.number >= shipped {
			s.retained += p.size
			s.retainedUsage.add(p.usage)
		}
	}
}

// usageAndQuota returns how much a user's events take, and how much they may take. A denied access writes an event, so a process
// could fill the audit with denials, and a full audit rejects all new sessions. Therefore a user's events may take half of the
// capacity that the events of other users leave: a second user has a quarter then, and so on, and there is capacity for the next one.
// With Limits.Drop, where the oldest file is removed instead, it is a quarter of the total for each user. Root has no quota, and
// what every sink has doesn't count.
func (s *Spool) usageAndQuota(owner string) (used, quota int64) {
	used = s.retainedUsage[owner] + s.pendingUsage[owner]
	capacity := s.Limits.Size / 10 * 9
	if s.Limits.Drop {
		return used, capacity / 4
	}
	return used, (capacity - (s.retained + int64(len(s.buf)) - used)) / 2
}

// exceedsQuota reports whether an event is only counted. The start and the end of a session are always stored.
func (s *Spool) exceedsQuota(e *event.Event) bool {
	if !e.FromOrdinaryUser() || e.Kind == event.SessionStart || e.Kind == event.SessionEnd {
		return false
	}
	used, quota := s.usageAndQuota(e.Owner)
	return used >= quota
}

// countOverQuota adds an event to the gap of its session. The gap is written after the first event, at the session's end, and when
// the user's events are below the quota.
func (s *Spool) countOverQuota(e *event.Event) {
	gap := s.overQuotaGaps[e.Session]
	if gap == nil {
		used, _ := s.usageAndQuota(e.Owner)
		gap = &event.Event{
			Kind: event.Gap, Mechanism: "spool", Session: e.Session, Owner: e.Owner, Tool: e.Tool, Agent: e.Agent, Mode: e.Mode,
			Policy: e.Policy, Digest: e.Digest, Extra: map[string]string{
				"why": fmt.Sprintf("the events of user %s take %d bytes, which is the quota of a user in the audit", e.Owner, used), "exact": "true",
			},
		}
		s.overQuotaGaps[e.Session] = gap
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
	s.overQuota += n
}

// addOverQuotaGap adds the gap of a session to the buffer.
func (s *Spool) addOverQuotaGap(session string, added map[string]bool) {
	gap := s.overQuotaGaps[session]
	if gap == nil || added[session] {
		return
	}
	if gap.Count > 0 {
		s.add(gap)
	}
	added[session] = true
}

// countDropped updates the gaps after a chunk: it removes those of the reported sessions, and counts the dropped events.
func (s *Spool) countDropped(reported map[string]bool, dropped []*event.Event) {
	for session := range reported {
		delete(s.overQuotaGaps, session)
	}
	first := map[string]bool{}
	for _, e := range dropped {
		first[e.Session] = first[e.Session] || s.overQuotaGaps[e.Session] == nil
		s.countOverQuota(e)
	}
	for session, isFirst := range first {
		if gap := s.overQuotaGaps[session]; isFirst {
			s.pendingGaps = append(s.pendingGaps, *gap)
			gap.Count, gap.Execs = 0, 0
		}
	}
}

// ownerOf returns the owner of a line.
func ownerOf(line []byte) string {
	_, rest, ok := bytes.Cut(line, []byte(`,"owner":"`)) // a string can't contain this, because JSON escapes its quotation marks
	owner, _, _ := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return ""
	}
	return string(owner)
}

// saveUsage stores the usage of the finished files. If it fails, the next start reads them.
func (s *Spool) saveUsage() {
	all := map[uint64]userBytes{}
	for _, p := range s.finished {
		all[p.number] = p.usage
	}
	if text, err := json.Marshal(all); err == nil {
		_ = Replace(s.path(usageName), append(text, '\n'))
	}
}

// loadUsage loads or computes the usage of all files.
func (s *Spool) loadUsage() error {
	s.fileUsage, s.pendingUsage, s.overQuotaGaps = userBytes{}, userBytes{}, map[string]*event.Event{}
	var known map[uint64]userBytes
	if text, err := os.ReadFile(s.path(usageName)); err == nil {
		_ = json.Unmarshal(text, &known) // scanUsage computes missing values
	}
	for i := range s.finished {
		p := &s.finished[i]
		if p.usage = known[p.number]; p.usage != nil {
			continue
		}
		var err error
		if p.usage, err = s.scanUsage(p.number); err != nil {
			return err
		}
	}
	if s.file == nil {
		return nil
	}
	var err error
	s.fileUsage, err = s.scanUsage(s.number)
	return err
}

func (s *Spool) scanUsage(number uint64) (userBytes, error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	by := userBytes{}
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
