package kernelaudit

import (
	"encoding/json"
	"reflect"
)

// Totals are the counts of a session's denials.
type Totals struct {
	Delivered uint64
	// Missing is the number of denials that weren't delivered. If Exact is false, records were lost that may or may not have been this
	// session's, and Missing is the number that is known.
	Missing uint64
	Exact   bool
	Why     string // the cause of a loss, for people; "" if there was none
}

// Alike reports whether two denials differ in nothing but their time and serial.
func (d *Denial) Alike(o *Denial) bool {
	other := *o
	other.Time, other.Serial = d.Time, d.Serial
	return reflect.DeepEqual(*d, other)
}

// plainDenial is a Denial without its methods.
type plainDenial Denial

// jsonDenial is a Denial in JSON. Names may have any byte but NUL, and a string in JSON is UTF-8.
type jsonDenial struct {
	plainDenial
	Path     []byte `json:",omitempty"`
	Exe      []byte `json:",omitempty"`
	Comm     []byte `json:",omitempty"`
	PeerComm []byte `json:",omitempty"`
}

// MarshalJSON keeps the bytes of names as they are.
func (d Denial) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonDenial{plainDenial(d), []byte(d.Path), []byte(d.Exe), []byte(d.Comm), []byte(d.PeerComm)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (d *Denial) UnmarshalJSON(text []byte) error {
	var w jsonDenial
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*d = Denial(w.plainDenial)
	d.Path, d.Exe, d.Comm, d.PeerComm = string(w.Path), string(w.Exe), string(w.Comm), string(w.PeerComm)
	return nil
}
