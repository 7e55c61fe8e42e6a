package event

import (
	"bytes"
	"fmt"
)

// Format is how events are written, one line each. The zero value is OCSF.
type Format uint8

// The formats.
const (
	OCSF   Format = iota // OCSF 1.9 JSON lines
	OCSF18               // OCSF 1.8 JSON lines, for consumers that don't read 1.9 yet
	ECS                  // Elastic Common Schema JSON lines
	Text                 // for people
)

// Formats lists all formats.
var Formats = []Format{OCSF, OCSF18, ECS, Text}

func (f Format) String() string { return [...]string{"ocsf", "ocsf-1.8", "ecs", "text"}[f] }

// ParseFormat finds a format by its name on the command line.
func ParseFormat(s string) (Format, error) {
	for _, f := range Formats {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown event format %q: use ocsf, ocsf-1.8, ecs or text", s)
}

// Append adds the event's line, with its newline. It neither numbers nor masks: Writer does.
func (f Format) Append(dst []byte, e *Event) []byte {
	switch f {
	case Text:
		return appendText(dst, e)
	case ECS:
		return appendECS(dst, e)
	case OCSF18:
		return appendOCSF(dst, e, version18)
	}
	return appendOCSF(dst, e, version19)
}

// PassesThrough reports whether a spool's line needs no conversion. OCSF includes both versions, OCSF18 only its own.
func (f Format) PassesThrough(line []byte) bool {
	return f == OCSF || f == OCSF18 && bytes.Contains(line, []byte(`"metadata":{"version":"`+version18+`"`))
}
