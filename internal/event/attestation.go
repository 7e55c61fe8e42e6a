package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Genesis is the Previous of a spool's first record.
var Genesis = strings.Repeat("0", 2*sha256.Size)

// link is the record before, as OCSF 1.8 and ECS, which have no place for it, are given it. It's the last member: package audit looks
// for it there.
func (o *object) link(e *Event) {
	o.object("record_integrity", func(o *object) { o.text("prev_event", e.Previous) })
}

// attest ends a record with its place in the spool's chain, and with its own fingerprint: the SHA-256 of its text, from its first byte on,
// without the fingerprint's member and the newline. Package audit looks for both at the end.
func (o *object) attest(e *Event, from int) {
	if e.Previous == "" {
		return // it's in no chain
	}
	o.key("attestation_list")
	chain, _, _ := strings.Cut(e.UID, "-")
	a := open(append(o.dst, '['))
	a.text("chain_uid", chain)
	if e.Previous != Genesis {
		a.object("prev_event", func(o *object) {
			o.text("uid", chain+"-"+strconv.FormatUint(e.Sequence-1, 10))
			o.fingerprint(e.Previous)
		})
	}
	sum := sha256.Sum256(append(a.dst[from:], "}]}"...))
	a.fingerprint(hex.EncodeToString(sum[:]))
	o.dst = append(a.close(), ']')
}

func (o *object) fingerprint(value string) {
	o.object("fingerprint", func(o *object) {
		o.number("algorithm_id", 3)
		o.text("algorithm", "SHA-256")
		o.number("encoding_id", 1)      // hexadecimal
		o.number("serialization_id", 1) // the bytes as they are
		o.text("value", value)
	})
}
