package backend

import (
	"slices"
	"strings"
)

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

// Offer is something that a policy can ask for, and whether it's enforced here where no backend is named.
type Offer struct {
	What string
	Yes  bool
	Note string // what there is instead; "" for nothing
}

// Offers are what a user gets here, in the order in which most people ask for it.
func (m Machine) Offers() []Offer {
	bpf, has := m.Auto == "bpf", m.found
	offers := []Offer{
		{"files by path, programs, system calls, variables, run time", m.Auto != "", "nothing is started"},
		{"files by pattern, exceptions beneath a grant, protected files", bpf, "a policy that asks for them is refused, or says so at the start"},
		{"the network by host, address, path and method", has(probedNet), "all of it, none of it, or by TCP port (Linux 6.7)"},
		{"limits of memory, processes, processor time, disk traffic", has(probedCgroup), "a policy that asks for them is refused"},
		{"what was denied, with the rule that decided", bpf || has(probedAudit), "denials are enforced, and only failed commands tell of them"},
	}
	for i := range offers {
		if offers[i].Yes {
			offers[i].Note = ""
		}
	}
	return offers
}

// Steps are the one or two things that would give most, where something is missing.
func (m Machine) Steps() []string {
	var steps, forBPF, others []string
	for _, p := range m.Probes {
		step := p.Name + ": " + p.Fix
		switch {
		case p.Result == Yes || p.Fix == "", m.Auto == "bpf" && p.Name == probedAudit:
		case strings.HasPrefix(p.Needs, needsBPF):
			forBPF = append(forBPF, step)
		default:
			others = append(others, step)
		}
	}
	if strings.Contains(m.Instead, "'toolguard doctor'") {
		steps = forBPF[:min(1, len(forBPF))] // who lacks one lacks the others, too
	} else if m.Instead != "" {
		steps = []string{m.Instead}
	}
	steps = slices.Concat(steps, others)
	return steps[:min(2, len(steps))]
}

// Names of probes that are asked for by name.
const (
	probedNet    = "network programs"
	probedCgroup = "cgroup v2 controllers"
	probedAudit  = "denial events"

	needsBPF = "the bpf backend"
)

func (m Machine) found(name string) bool {
	i := slices.IndexFunc(m.Probes, func(p Probe) bool { return p.Name == name })
	return i >= 0 && m.Probes[i].Result == Yes
}

// Doctor looks at the machine. It starts nothing and leaves nothing behind.
func Doctor() Machine { return doctor() }
