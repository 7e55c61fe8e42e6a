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
	_, _ = hex.Decode(h[:], []byte(s[:min(len(s), 2*len(h))])) // what isn't a hash is written otherwise
	return h, h.String() == s
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
	_, uid, _ := bytes.Cut(line, []byte(uidStart))
	uid, _, ok = bytes.Cut(uid[:min(len(uid), 64)], []byte(`"`))
	var number string
	l.chain, number, _ = strings.Cut(string(uid), "-")
	n, err := strconv.ParseUint(number, 10, 63)
	l.sequence = n
	return l, ok && err == nil && n > 0
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
