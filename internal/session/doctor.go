package session

// Tri is what a probe found. The zero value is unknown.
type Tri uint8

// The results.
const (
	Unknown Tri = iota
	No
	Yes
)

func (t Tri) String() string { return [...]string{"unknown", "no", "yes"}[t] }

// MarshalText makes the result a word in JSON.
func (t Tri) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Probe is one fact about the machine.
type Probe struct {
	Name   string `json:"name"`
	Needs  string `json:"needed_by"`        // what works only with it
	Result Tri    `json:"result"`           // yes, no, unknown
	Detail string `json:"detail,omitempty"` // what was found
	Fix    string `json:"fix,omitempty"`    // how to get it; empty when it's there
}

// BackendState is what one backend could do here.
type BackendState struct {
	Name      string   `json:"name"`
	Available bool     `json:"available"`
	Why       string   `json:"why,omitempty"`  // why it isn't available
	Gaps      []string `json:"gaps,omitempty"` // what it can never see
}

// Machine is what this machine can enforce, for this user.
type Machine struct {
	Probes   []Probe        `json:"probes"`
	Backends []BackendState `json:"backends"`
	Auto     string         `json:"auto"`              // the backend that is taken where none is named; "": none can be
	Instead  string         `json:"instead,omitempty"` // what enforces more than that one, why it isn't taken, and what to do
}

// Doctor looks at the machine. It starts nothing and leaves nothing behind.
func Doctor() Machine { return doctor() }
