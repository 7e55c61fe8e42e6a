package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// denied is a system call that is refused whatever its arguments.
type denied struct {
	name  string
	group *group
	place policy.Place
}

// declares tells whether an authority says anything about system calls.
func declares(s policy.Syscalls) bool { return s.Profile != "" || len(s.Allow) > 0 || len(s.Deny) > 0 }

// listed are the calls that the profiles and the policy's own names refuse. Each authority that says something takes names
// out of its own profile's list and adds some; a call that any of them refuses is refused. Where nobody says
// anything the default profile holds. What is fixed stays in any case; Validate has refused policies that ask for it.
func listed(c *policy.Compiled) []denied {
	var out []denied
	spoke := false
	for _, l := range c.Layers {
		if l.Authority != policy.Builtin && declares(l.Syscalls) {
			spoke = true
			out = appendListed(out, l.Syscalls)
		}
	}
	if !spoke {
		out = appendListed(nil, policy.Syscalls{})
	}
	return out
}

func appendListed(out []denied, s policy.Syscalls) []denied {
	for _, name := range s.Deny {
		out = append(out, denied{name, &group{id: "syscalls.deny", text: "the policy denies " + name, errno: unix.EPERM}, s.Place})
	}
	for _, set := range profile(s.Profile) {
		for i := range set {
			for _, name := range set[i].names {
				if !slices.Contains(s.Allow, name) || whyFixed(name) != "" {
					out = append(out, denied{name, &set[i], policy.Place{}})
				}
			}
		}
	}
	return out
}

func profile(name string) [][]group {
	if name == "strict" {
		return [][]group{always, strict}
	}
	return [][]group{always}
}

// strictPtrace tells whether any authority refuses to let processes trace each other.
func strictPtrace(c *policy.Compiled) bool {
	for _, l := range c.Layers {
		if l.Syscalls.Profile == "strict" && !slices.Contains(l.Syscalls.Allow, "ptrace") {
			return true
		}
	}
	return false
}
