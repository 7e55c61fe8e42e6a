package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
)

// maxLine bounds a line, its newline included.
const maxLine = 1 << 20

// hash is the fingerprint of a record: of its text without the fingerprint and the newline. Of a record in OCSF 1.8, which has none, it's the
// SHA-256 of the line, its newline included.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// parseHash takes a hash as String writes it, and no other spelling.
func parseHash(s string) (h hash, ok bool) {
	_, _ = hex.Decode(h[:], []byte(s[:min(len(s), 2*len(h))])) // what isn't a hash is written otherwise
	return h, h.String() == s
}

// Around a record's uid, its link and its fingerprint: the same bytes in every line of a version. Nobody else's words can be taken for
// them, as a quotation mark within a string has a backslash before it.
const (
	uidStart = `"metadata":{"version":"1.` // and the rest of the version
	uidNext  = `.0","uid":"`

	linkStart = `,"record_integrity":{"prev_event":"` // OCSF 1.8
	linkEnd   = "\"}}}\n"

	fingerprintStart = `,"fingerprint":{"algorithm_id":3,"algorithm":"SHA-256","encoding_id":1,"serialization_id":1,"value":"`
	previousEnd      = `"}}` // of the link, where there is one
	fingerprintEnd   = "\"}}]}\n"
	eventEnd         = "}]}" // where there's no fingerprint
)

// link is what ties a line to its place.
type link struct {
	chain    string
	sequence uint64
	previous hash
	hash     hash // the line's own, which the next one's link has
}

// parseLink finds a line's link. The line has its newline. Of one that has a number, and isn't as a spool writes it, the number may be known.
func parseLink(line []byte) (l link, ok bool) {
	if ok = l.parseUID(line); !ok {
		return l, false
	}
	if _, l.previous, ok = cutHash(line, linkStart, linkEnd); ok {
		l.hash = sha256.Sum256(line)
		return l, true
	}
	text, fingerprint, ok := cutHash(line, fingerprintStart, fingerprintEnd)
	if !ok {
		return l, false
	}
	_, l.previous, _ = cutHash(text, fingerprintStart, previousEnd) // the first record has none
	sum := sha256.New()
	sum.Write(text)
	sum.Write([]byte(eventEnd))
	sum.Sum(l.hash[:0])
	return l, l.hash == fingerprint
}

// parseUID finds a record's spool and number.
func (l *link) parseUID(line []byte) bool {
	_, rest, _ := bytes.Cut(line, []byte(uidStart))
	if len(rest) == 0 {
		return false
	}
	uid, ok := bytes.CutPrefix(rest[1:], []byte(uidNext))
	if !ok {
		return false
	}
	uid, _, ok = bytes.Cut(uid[:min(len(uid), 64)], []byte(`"`))
	chain, digits, _ := strings.Cut(string(uid), "-")
	n, err := strconv.ParseUint(digits, 10, 63)
	l.chain, l.sequence = chain, n
	return ok && err == nil && n > 0
}

// cutHash cuts a hash, and what is around it, off the end of a text.
func cutHash(text []byte, before, after string) (rest []byte, h hash, ok bool) {
	rest, ok = bytes.CutSuffix(text, []byte(after))
	at := len(rest) - 2*sha256.Size
	if !ok || at < 0 || !bytes.HasSuffix(rest[:at], []byte(before)) {
		return nil, h, false
	}
	h, ok = parseHash(string(rest[at:]))
	return rest[:at-len(before)], h, ok
}

// told is what the spool itself needs to know of some of its events.
type told struct {
	Count    uint64
	Unmapped struct {
		Kind, Mechanism string
		Extra           toldExtra
	}
}

type toldExtra struct {
	What, Why, Key, Signature, Exact, First, Last string

	NextKey string `json:"next_key"`
}

var (
	gapMark        = []byte(`"unmapped":{"kind":"gap"`)
	checkpointMark = []byte(`"unmapped":{"kind":"checkpoint"`)
	daemonMark     = []byte(`"unmapped":{"kind":"daemon"`)
)

// parseTold reads a gap, a checkpoint or what toolguardd tells of itself; ok is false for other events.
func parseTold(line []byte) (t told, ok bool) {
	if !bytes.Contains(line, gapMark) && !bytes.Contains(line, checkpointMark) && !bytes.Contains(line, daemonMark) {
		return t, false
	}
	return t, json.Unmarshal(line, &t) == nil
}
