package output

import (
	"github.com/toolguard/toolguard/internal/session/backend"
)

// Version is the answer of version.
func (s *Screen) Version(b Build) {
	defer s.flush()
	commit := ""
	if b.Commit != "" {
		commit = ", commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			commit += " with changes"
		}
	}
	s.line("toolguard %s (%s, %s/%s%s)", Clean(b.Version), b.Go, b.OS, b.Arch, commit)
}

// Offers is the answer of doctor: what the user gets, and how to get more.
func (s *Screen) Offers(m backend.Machine) {
	defer s.flush()
	if m.Auto == "" {
		s.line("%s", s.in(red, "no backend can be used: toolguard exec starts nothing here"))
		for _, b := range m.Backends {
			s.line("  %s: %s", s.in(bold, Clean(b.Name)), Clean(b.Why))
		}
	} else {
		s.line("commands run under the %s backend here, as this user", s.in(bold, Clean(m.Auto)))
	}
	var rows [][]cell
	for _, o := range m.Offers() {
		mark := cs(green, "yes")
		if !o.Yes {
			mark = cs(yellow, "no")
		}
		rows = append(rows, []cell{mark, cs(bold, o.What), c(o.Note)})
	}
	s.table("  ", rows)
	if steps := m.Steps(); len(steps) > 0 {
		s.line("%s", s.in(bold, "for more:"))
		for _, step := range steps {
			s.line("  - %s", Clean(step))
		}
	}
	s.line("'toolguard doctor --verbose' has every probe, and what the backends never see; 'toolguard policy lint --here FILE' is about one policy")
}

// Machine is the answer of doctor --verbose.
func (s *Screen) Machine(m backend.Machine) {
	defer s.flush()
	var rows [][]cell
	for _, p := range m.Probes {
		rows = append(rows, []cell{triCell(p.Result), cs(bold, p.Name), c(p.Detail)})
		if p.Result == backend.Yes {
			continue
		}
		rows = append(rows, []cell{c(""), c(""), c("needed by " + p.Needs)})
		if p.Fix != "" {
			rows = append(rows, []cell{c(""), c(""), cs(yellow, "to get it: "+p.Fix)})
		}
	}
	s.line("%s", s.in(bold, "what this machine has, for this user"))
	s.table("  ", rows)
	s.line("\n%s", s.in(bold, "backends"))
	if len(m.Backends) == 0 {
		s.line("  %s", s.in(red, "none: toolguard exec starts nothing here"))
	}
	if m.Auto != "" {
		s.line("  --backend auto selects %s", s.in(bold, Clean(m.Auto)))
	}
	if m.Instead != "" {
		s.line("  %s", s.in(yellow, "what "+Clean(m.Auto)+" doesn't enforce (--dry-run lists it) needs another one: "+Clean(m.Instead)))
	}
	for _, b := range m.Backends {
		state := s.in(green, "usable")
		if !b.Available {
			state = s.in(red, "not usable") + ": " + Clean(b.Why)
		}
		s.line("  %s: %s", s.in(bold, Clean(b.Name)), state)
		if len(b.Gaps) > 0 {
			s.line("  what it never sees, under any policy:")
		}
		s.list("    ", b.Gaps)
	}
	s.line("\n'toolguard exec --policy FILE --dry-run' shows what is enforced of a policy")
}

func triCell(t backend.Tri) cell {
	switch t {
	case backend.Yes:
		return cs(green, "yes")
	case backend.No:
		return cs(red, "no")
	}
	return cs(yellow, "unknown")
}

// Build is what this program was made of.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that aren't committed
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}
