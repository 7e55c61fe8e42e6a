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

// hash is the fingerprint of a record: the SHA-256 of its text without the fingerprint and the newline. For a record in OCSF 1.8,
// which has no fingerprint, it is the SHA-256 of the line with its newline.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// parseHash parses a hash as String writes it, and accepts no other spelling.
func parseHash(s string) (h hash, ok bool) {
	_, _ = hex.Decode(h[:], []byte(s[:min(len(s), 2*len(h))])) // String differs unless s is a hash
	return h, h.String() == s
}

// The text around a record's uid, link and fingerprint, the same in every line of a version. A string in an event can't contain it,
// because JSON puts a backslash before each quotation mark.
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

// link ties a line to its position in the chain.
type link struct {
	chain    string
	sequence uint64
	previous hash
	hash     hash // the line's own, which is the next line's previous
}

// parseLink returns the link of a line with its newline. ok is false if the line isn't as a spool writes it; its number may be
// known nevertheless.
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

// parseUID parses a record's spool and number.
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

// cutHash cuts a hash, and the text around it, off the end of a text.
func cutHash(text []byte, before, after string) (rest []byte, h hash, ok bool) {
	rest, ok = bytes.CutSuffix(text, []byte(after))
	at := len(rest) - 2*sha256.Size
	if !ok || at < 0 || !bytes.HasSuffix(rest[:at], []byte(before)) {
		return nil, h, false
	}
	h, ok = parseHash(string(rest[at:]))
	return rest[:at-len(before)], h, ok
}

// spoolEvent has the members that the spool itself reads of gaps, checkpoints and daemon events.
type spoolEvent struct {
	Count    uint64
	Unmapped struct {
		Kind, Mechanism string
		Extra           spoolExtra
	}
}

type spoolExtra struct {
	What, Why, Key, Signature, Exact, First, Last string

	NextKey string `json:"next_key"`
}

var (
	gapMark        = []byte(`"unmapped":{"kind":"gap"`)
	checkpointMark = []byte(`"unmapped":{"kind":"checkpoint"`)
	daemonMark     = []byte(`"unmapped":{"kind":"daemon"`)
)

// parseSpoolEvent parses a gap, a checkpoint or a daemon event. ok is false for other events.
func parseSpoolEvent(line []byte) (t spoolEvent, ok bool) {
	if !bytes.Contains(line, gapMark) && !bytes.Contains(line, checkpointMark) && !bytes.Contains(line, daemonMark) {
		return t, false
	}
	return t, json.Unmarshal(line, &t) == nil
}
