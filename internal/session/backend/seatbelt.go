package backend

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/network"
)

// Mac is where a Mac has what the seatbelt backend needs.
type Mac struct {
	SandboxExec string // the program
	Egress      string // the program of egress; "": it isn't installed
	Home        string // of the user; "": unknown
}

// EgressProgram is the name of the program of egress, in toolguard's own folder.
const EgressProgram = "toolguard-egress"

// ThisMac returns where this Mac has it.
func ThisMac() Mac {
	m := Mac{SandboxExec: sandboxexec.Program}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		m.Home = home
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			m.Egress = filepath.Join(filepath.Dir(self), EgressProgram)
		}
	}
	if info, err := os.Stat(m.Egress); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		m.Egress = ""
	}
	return m
}

// seatbeltGaps returns the stated gaps of the seatbelt backend: of its sessions, and of every profile.
func seatbeltGaps() []string {
	return append([]string{
		"a process of the session that leaves the process group and whose parents have ended isn't ended with the session; it stays in its sandbox",
		"if toolguard is killed, the session's processes continue; they stay in their sandbox",
		"argument 0 of the command is its path, and dyld's variables (DYLD_…) don't reach it: sandbox-exec is a protected program",
		"a program that macOS can't execute ends with sandbox-exec's exit status 71, and not with 126",
		"egress runs as the user and unconfined, and other processes of this Mac can use its port while the session runs",
	}, darwin.StatedGaps()...)
}

// anyPort stands for the port of egress in a report.
const anyPort = 1

// Seatbelt is the backend of macOS's sandbox.
func Seatbelt(m Mac) (Backend, error) {
	if info, err := os.Stat(m.SandboxExec); err != nil || !info.Mode().IsRegular() {
		return Backend{}, fmt.Errorf("the seatbelt backend needs %s, which this machine doesn't have", m.SandboxExec)
	}
	return Backend{
		name: "seatbelt", gaps: seatbeltGaps(), Network: &Network{}, Mac: &m,
		report: func(_ *Backend, c *policy.Compiled) []policy.Enforceability { return reportSeatbelt(m, c) },
	}, nil
}

// Profile renders the profile of a policy, with the port of egress, or 0.
func (m *Mac) Profile(c *policy.Compiled, egressPort int) (*darwin.Profile, error) {
	return darwin.Render(c, darwin.Options{Home: m.Home, EgressPort: egressPort})
}

// NeedsEgress reports whether a policy's sessions have an egress process here.
func (m *Mac) NeedsEgress(c *policy.Compiled) bool { return m.Egress != "" && network.Decides(c) }

func reportSeatbelt(m Mac, c *policy.Compiled) []policy.Enforceability {
	port := 0
	if m.NeedsEgress(c) {
		port = anyPort
	}
	p, err := m.Profile(c, port)
	if err != nil {
		return []policy.Enforceability{{ID: "profile", Status: policy.NotEnforceable, By: "seatbelt", Why: err.Error()}}
	}
	return p.Report
}
