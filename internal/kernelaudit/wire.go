package kernelaudit

import (
	"encoding/json"
	"reflect"
)

// Totals is how a session's refusals add up.
type Totals struct {
	Delivered uint64
	// Missing is how many were refused and not delivered. With Exact false it's only what is known to be missing:
	// something was lost, and it may or may not have been this session's.
	Missing uint64
	Exact   bool
	Why     string // what was lost where, for people; "" when nothing was
}

// Alike reports whether two denials differ in nothing but their time and serial.
func (d *Denial) Alike(o *Denial) bool {
	other := *o
	other.Time, other.Serial = d.Time, d.Serial
	return reflect.DeepEqual(*d, other)
}

// plain is a Denial without its methods.
type plain Denial

// wire is a Denial in JSON. Names are any bytes but NUL, and a string in JSON is UTF-8.
type wire struct {
	plain
	Path     []byte `json:",omitempty"`
	Exe      []byte `json:",omitempty"`
	Comm     []byte `json:",omitempty"`
	PeerComm []byte `json:",omitempty"`
}

// MarshalJSON keeps the bytes of names as they are.
func (d Denial) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{plain(d), []byte(d.Path), []byte(d.Exe), []byte(d.Comm), []byte(d.PeerComm)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (d *Denial) UnmarshalJSON(text []byte) error {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*d = Denial(w.plain)
	d.Path, d.Exe, d.Comm, d.PeerComm = string(w.Path), string(w.Exe), string(w.Comm), string(w.PeerComm)
	return nil
}
