package event

import "fmt"

// Format is a rendering of events, one line each. The zero value is OCSF.
type Format uint8

// The formats.
const (
	OCSF Format = iota // OCSF 1.8 JSON lines
	Text               // for people
)

func (f Format) String() string { return [...]string{"ocsf", "text"}[f] }

// ParseFormat finds a format by its name on the command line.
func ParseFormat(s string) (Format, error) {
	switch s {
	case "ocsf":
		return OCSF, nil
	case "text":
		return Text, nil
	case "ecs":
		return 0, fmt.Errorf("format ecs isn't supported yet: use ocsf or text")
	}
	return 0, fmt.Errorf("unknown event format %q: use ocsf or text", s)
}

// Append adds the event's line, with its newline. It neither numbers nor masks: Writer does.
func (f Format) Append(dst []byte, e *Event) []byte {
	if f == Text {
		return appendText(dst, e)
	}
	return appendOCSF(dst, e)
}
