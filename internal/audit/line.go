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

// hash is a line's, its newline included.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// parseHash takes a hash as String writes it, and no other spelling.
func parseHash(s string) (h hash, ok bool) {
	n, err := hex.Decode(h[:], []byte(s[:min(len(s), 2*len(h))]))
	return h, err == nil && n == len(h) && h.String() == s
}

// Around the link, and before the uid: the same bytes in every line. Nobody else's words can be taken for them, as a quotation mark within a
// string has a backslash before it.
const (
	linkStart = `,"record_integrity":{"prev_event":"`
	linkEnd   = "\"}}}\n"
	uidStart  = `"metadata":{"version":"1.8.0","uid":"`
)

// link is what ties a line to its place.
type link struct {
	chain    string
	sequence uint64
	previous hash
}

// parseLink finds a line's link. The line has its newline.
func parseLink(line []byte) (l link, ok bool) {
	rest, ok := bytes.CutSuffix(line, []byte(linkEnd))
	at := len(rest) - 2*sha256.Size
	if !ok || at < 0 || !bytes.HasSuffix(rest[:at], []byte(linkStart)) {
		return l, false
	}
	if l.previous, ok = parseHash(string(rest[at:])); !ok {
		return l, false
	}
	_, uid, ok := bytes.Cut(line, []byte(uidStart))
	if !ok {
		return l, false
	}
	end := bytes.IndexByte(uid[:min(len(uid), 64)], '"')
	if end < 0 {
		return l, false
	}
	var number string
	l.chain, number, ok = strings.Cut(string(uid[:end]), "-")
	if !ok {
		return l, false
	}
	n, err := strconv.ParseUint(number, 10, 63)
	l.sequence = n
	return l, err == nil && n > 0
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
