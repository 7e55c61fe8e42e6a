// Package policy is the language: what a policy means, and the one compiled form that every reader uses.
//
// A Source is a policy as written. Compile resolves its paths, checks every value and indexes the rules; the result is
// immutable, and an error names file, line and rule. Everything else uses the Compiled: CheckFS,
// CheckRename, CheckLink, CheckNet, CheckAddress, CheckEnv and CheckCommand answer with a Verdict. Package explain
// makes verdicts readable. Mechanisms read the tables of each Layer.
//
// # Layers
//
// Each authority is a Layer. A target is allowed only if every layer that declares the resource allows it, so adding a
// layer never allows more. The first layer is toolguard's own: it protects toolguard's files and the policy files in
// force. Inside a layer the most specific rule wins entirely: it inherits nothing from the rules it overrides. Only built-in rules for
// paths outside the workspace also grant, from compilation on, what their paths would have without them.
//
// # Paths
//
// Rules are resolved when the policy is compiled, as the kernel would: component by component, symlinks and ".." in
// order. A rule whose path doesn't mean what is written (it leaves the workspace, loops, dangles, can't be resolved)
// is an error. A target is resolved by the same walk; one that can't be resolved is denied.
//
// "/proc/self" is a keyword of the language, the session's own processes, and is never resolved. A target that leads
// through one of /proc's links to an object (cwd, exe, fd) is denied: only the process itself knows where it leads.
//
// Package fspath resolves and matches paths. The cost of a match depends on the path's length, not on the number of rules, and it
// doesn't allocate.
//
// # Renames
//
// A file must not gain a capability by moving, all layers taken together. Each layer alone decides on a directory,
// for everything that could be beneath it: no literal rule and no BASE may lie beneath either name, neither name may be a part
// of a pattern, the rules that decide the two must not grant more, and the patterns that could match beneath must be the same or
// make no difference. It mustn't bring in a name that couldn't be created there, either.
//
// # Threats
//
// The process whose access is decided is hostile. A host name is compared in one normal form, and every other spelling of an address or of a
// host is rejected and not normalised. On a connection of unknown protocol a rule that denies part of the possible content
// denies all of it. A URL's path that servers read in different ways matches no grant for a path and every denial
// for one. Names that collide in a hash table are compared by their bytes. A Verdict's zero value denies.
package policy
