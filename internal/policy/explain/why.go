package explain

import "github.com/toolguard/toolguard/internal/policy"

// Why returns the phrase for a reason, for people; rule is the one that decided, or nil.
func Why(r policy.Reason, rule *policy.Rule) string {
	if r == policy.Protected && rule != nil && rule.Position.File == "builtin:secrets" {
		return "credentials are kept here"
	}
	return phrase(r)
}

// phrase is a reason in words.
func phrase(r policy.Reason) string {
	switch r {
	case policy.Allowed:
		return "a rule allows it"
	case policy.AllowedByDefault:
		return "no rule matches, and the default is allow"
	case policy.AllowedNoPolicy:
		return "no policy declares this resource"
	case policy.NoRule:
		return "no rule allows it"
	case policy.RuleDenies:
		return "a rule denies it"
	case policy.OutsideWorkspace:
		return "it's outside the workspace, and no rule allows it"
	case policy.WorkspaceEscape:
		return "it leads out of the workspace, to where no rule allows it"
	case policy.Protected:
		return "programs outside the session obey this file, so it's protected"
	case policy.PathUnresolved:
		return "the path is too long or too deep to follow"
	case policy.NoGain:
		return "it would get more access under its new name"
	case policy.CommandNotListed:
		return "this program isn't among those that may run"
	case policy.ArgsNotListed:
		return "this program may not run with these arguments"
	case policy.HostNotListed:
		return "no rule allows this host"
	case policy.HostMismatch:
		return "the name in the request isn't the one that was connected to"
	case policy.PrivateAddress:
		return "a name that leads to a private address, or one of this machine's own"
	case policy.DNSDenied:
		return "no rule allows looking this name up"
	case policy.SyscallDenied:
		return "the session may not make this system call"
	case policy.Limit:
		return "a limit was reached"
	}
	return string(r)
}
