package backend

import (
	"errors"
	"os"
	"runtime"

	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
)

// macProbes ask macOS. Tests on other systems have substitutes.
type macProbes struct {
	version func() (string, error) // of macOS
	canary  func() error           // see sandboxexec.Canary
	log     string                 // the program that reads the unified log
}

// Names of the probes of a Mac.
const (
	probedSandboxExec = "sandbox-exec"
	probedEgress      = "egress"
)

// doctorMac returns what a Mac can enforce.
func doctorMac(m Mac, p macProbes) Machine {
	version := Probe{Name: "macOS", Needs: "everything", Result: Unknown}
	if v, err := p.version(); err == nil {
		version.Result, version.Detail = Yes, v+" "+runtime.GOARCH
	} else {
		version.Detail = err.Error()
	}
	b, missing := Seatbelt(m)
	program := Probe{Name: probedSandboxExec, Needs: "the seatbelt backend: files, programs, the network", Result: found(missing), Detail: m.SandboxExec}
	if missing != nil {
		program.Detail, program.Fix = missing.Error(), "it's a part of macOS: update macOS, or use Linux"
	}
	denies, outer := probeMacCanary(p, missing)
	out := Machine{Probes: []Probe{version, program, denies, outer, probeMacEgress(m), probeMacLog(p, outer.Result)}}
	s := BackendState{Name: b.name, Gaps: b.gaps, Available: denies.Result == Yes}
	if s.Name = "seatbelt"; s.Available {
		out.Auto = s.Name
	} else {
		s.Why = denies.Detail
	}
	out.Backends = []BackendState{s}
	return out
}

// probeMacCanary returns whether the sandbox denies, and whether there is an outer one.
func probeMacCanary(p macProbes, missing error) (denies, outer Probe) {
	denies = Probe{Name: "the sandbox denies", Needs: "proof that rules are enforced"}
	outer = Probe{Name: "no outer sandbox", Needs: "the seatbelt backend: macOS doesn't nest sandboxes"}
	if missing != nil {
		denies.Result, denies.Detail = No, missing.Error()
		return denies, outer
	}
	err := p.canary()
	denies.Result, denies.Detail = found(err), "opening a file that a profile denies failed, and one that it allows didn't"
	if err != nil {
		denies.Detail, denies.Fix = err.Error(), "nothing is started without it: find out what prevents sandbox-exec here"
	}
	outer.Result = Yes
	if errors.Is(err, sandboxexec.ErrOuter) {
		outer.Result, outer.Detail = No, err.Error()
		outer.Fix = "start toolguard outside of the sandbox"
		denies.Result, denies.Fix = Unknown, outer.Fix
	}
	return denies, outer
}

func probeMacEgress(m Mac) Probe {
	p := Probe{Name: probedEgress, Needs: "the network by host, path and method", Result: Yes, Detail: m.Egress}
	if m.Egress == "" {
		p.Result, p.Detail = No, "there is no "+EgressProgram+" in toolguard's folder"
		p.Fix = "install " + EgressProgram + " alongside toolguard ('make build' makes both)"
	}
	return p
}

func probeMacLog(p macProbes, noOuter Tri) Probe {
	out := Probe{Name: probedAudit, Needs: "--events and the report: the unified log, best effort", Result: Yes, Detail: p.log + " stream"}
	if _, err := os.Stat(p.log); err != nil {
		out.Result, out.Detail, out.Fix = No, err.Error(), "it's a part of macOS; denials are enforced without it"
	} else if noOuter == No {
		out.Result, out.Detail, out.Fix = No, "a sandboxed process can't read the log", "start toolguard outside of the sandbox"
	}
	return out
}

// macOffers are the features of policies on a Mac.
func (m Machine) macOffers() []Offer {
	usable := m.Auto != ""
	return []Offer{
		{"files by path, programs, variables, run time", usable, "nothing is started"},
		{"files by pattern, exceptions beneath a grant, protected files", usable, "nothing is started"},
		{"the network by host, path and method", usable && m.found(probedEgress), "all of it, none of it, or servers of this Mac"},
		{"limits of memory, processes, processor time, disk traffic", false, "a policy with them is rejected: macOS has no control groups"},
		{"reports of denials, with the rule that decided", usable && m.found(probedAudit), "denials are enforced, and show only as failed operations"},
	}
}
