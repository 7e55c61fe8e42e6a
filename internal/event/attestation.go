package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Genesis is the value of Previous in a spool's first record.
var Genesis = strings.Repeat("0", 2*sha256.Size)

// recordIntegrity writes the fingerprint of the previous record for OCSF 1.8 and ECS, which have no attribute for it. It must be
// the last member, where package audit looks for it.
func (o *object) recordIntegrity(e *Event) {
	o.object("record_integrity", func(o *object) { o.text("prev_event", e.Previous) })
}

// attestation ends a record with its position in the spool's chain and its own fingerprint: the SHA-256 of the record's text
// from its first byte, without the fingerprint's member and the newline. Package audit looks for both at the end.
func (o *object) attestation(e *Event, from int) {
	if e.Previous == "" {
		return // not in a spool
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
