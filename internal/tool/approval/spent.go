package approval

import (
	"crypto/sha256"
	"time"
)

// The bounds of the ids that are remembered.
const (
	maxSpent  = 32768
	spentTime = 24 * time.Hour // the longest time for which a person is asked
)

// short is the beginning of a digest, long enough that nobody finds a second text for it.
type short [20]byte

func shorten(d [sha256.Size]byte) short { return short(d[:20]) }

// spentIDs are the ids of approvals that are gone, each with its request.
type spentIDs struct {
	requests map[short]spentID
	order    []spentRecord // the oldest first; those that were added again later have a record for each time
	added    uint64
}

type spentID struct {
	request short
	record  uint64
}

type spentRecord struct {
	id     short
	record uint64
	at     time.Time
}

// conflicts reports whether an id was that of another request.
func (s *spentIDs) conflicts(id string, r *request) bool {
	known, ok := s.requests[shorten(sha256.Sum256([]byte(id)))]
	return ok && known.request != shorten(r.digest)
}

// full reports whether one more id could be remembered only in place of one that must still be.
func (s *spentIDs) full(now time.Time) bool {
	return len(s.order) >= maxSpent && now.Sub(s.order[0].at) < spentTime
}

// add remembers an id. Beyond the limit the oldest is removed; unless keep, when it's less than a day old: the caller asks full first.
func (s *spentIDs) add(id string, r *request, now time.Time, keep bool) {
	if s.requests == nil {
		s.requests = map[short]spentID{}
	}
	key := shorten(sha256.Sum256([]byte(id)))
	s.added++
	for len(s.order) >= maxSpent && !(keep && s.full(now)) {
		if first := s.order[0]; s.requests[first.id].record == first.record {
			delete(s.requests, first.id)
		}
		s.order = s.order[1:]
	}
	s.requests[key] = spentID{shorten(r.digest), s.added}
	s.order = append(s.order, spentRecord{key, s.added, now})
}
