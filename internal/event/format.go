package event

import "fmt"

// Format is a rendering of events, one line each. The zero value is OCSF.
type Format uint8

// The formats.
const (
	OCSF Format = iota // OCSF 1.8 JSON lines
	ECS                // Elastic Common Schema JSON lines
	Text               // for people
)

func (f Format) String() string { return [...]string{"ocsf", "ecs", "text"}[f] }

// ParseFormat finds a format by its name on the command line.
func ParseFormat(s string) (Format, error) {
	for _, f := range []Format{OCSF, ECS, Text} {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown event format %q: use ocsf, ecs or text", s)
}

// Append adds the event's line, with its newline. It neither numbers nor masks: Writer does.
func (f Format) Append(dst []byte, e *Event) []byte {
	switch f {
	case Text:
		return appendText(dst, e)
	case ECS:
		return appendECS(dst, e)
	}
	return appendOCSF(dst, e)
}
