package backend

import (
	"slices"
	"strings"
)

// Tri is the result of a probe. The zero value is unknown.
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
	Needs  string `json:"needed_by"`        // the features that need it
	Result Tri    `json:"result"`           // yes, no, unknown
	Detail string `json:"detail,omitempty"` // the details of the result
	Fix    string `json:"fix,omitempty"`    // how to get it; "": it's there
}

// BackendState is the state of a backend on this machine.
type BackendState struct {
	Name      string   `json:"name"`
	Available bool     `json:"available"`
	Why       string   `json:"why,omitempty"`  // why it isn't available
	Missing   bool     `json:"-"`              // it's a program that isn't installed
	Gaps      []string `json:"gaps,omitempty"` // its stated gaps
}

// Machine has what this machine can enforce for this user.
type Machine struct {
	Probes    []Probe        `json:"probes"`
	Backends  []BackendState `json:"backends"`
	Supported bool           `json:"supported"`         // some backend can be used
	Auto      string         `json:"auto"`              // the backend that is selected by default; "": none can be used
	Instead   string         `json:"instead,omitempty"` // how to get one that enforces more
}

// Offer is a feature of policies, and whether the default backend enforces it here.
type Offer struct {
	What string
	Yes  bool
	Note string // what happens instead; "": it's enforced
}

// Offers returns the features, the most common ones first.
func (m Machine) Offers() []Offer {
	bpf, has := m.Auto == "bpf", m.found
	offers := m.macOffers()
	if !slices.ContainsFunc(m.Probes, func(p Probe) bool { return p.Name == probedSandboxExec }) {
		offers = []Offer{
			{"files by path, programs, system calls, variables, run time", m.Auto != "", "nothing is started"},
			{"files by pattern, exceptions beneath a grant, protected files", bpf, m.exceptions()},
			{"the network by host, address, path and method", has(probedNet), "all of it, none of it, or by TCP port (Linux 6.7)"},
			{"limits of memory, processes, processor time, disk traffic", has(probedCgroup), "a policy with them is rejected"},
			{"reports of denials, with the rule that decided", bpf || has(probedAudit), "denials are enforced, and show only as failed operations"},
		}
	}
	for i := range offers {
		if offers[i].Yes {
			offers[i].Note = ""
		}
	}
	return offers
}

// exceptions returns what happens with files by pattern, exceptions and protected files without the bpf backend.
func (m Machine) exceptions() string {
	const rejected = "a policy with them is rejected, or the start shows a warning"
	for _, b := range m.Backends {
		switch wraps := b.Name == "bwrap" || b.Name == "firejail"; {
		case wraps && b.Available:
			return b.Name + " is used for exceptions, and covers of the others what exists at the start (--backend " + b.Name + ")"
		case wraps && b.Missing:
			return rejected + "; " + b.Why
		}
	}
	return rejected
}

// Steps returns the one or two changes that would enable most missing features.
func (m Machine) Steps() []string {
	var steps, forBPF, other []string
	for _, p := range m.Probes {
		step := p.Name + ": " + p.Fix
		switch {
		case p.Result == Yes || p.Fix == "", m.Auto == "bpf" && p.Name == probedAudit:
		case strings.HasPrefix(p.Needs, needsBPF):
			forBPF = append(forBPF, step)
		default:
			other = append(other, step)
		}
	}
	if strings.Contains(m.Instead, "'toolguard doctor'") {
		steps = forBPF[:min(1, len(forBPF))] // a machine that lacks one mostly lacks the others
	} else if m.Instead != "" {
		steps = []string{m.Instead}
	}
	steps = slices.Concat(steps, other)
	return steps[:min(2, len(steps))]
}

// Names of probes that are looked up.
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

// Doctor probes the machine. It starts nothing and changes nothing.
func Doctor() Machine {
	m := doctor()
	m.Supported = m.Auto != ""
	return m
}

// found converts an error to a result.
func found(err error) Tri {
	if err != nil {
		return No
	}
	return Yes
}
