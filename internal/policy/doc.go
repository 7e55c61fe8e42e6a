// Package policy is the language: what a policy means, and the one compiled form that every reader uses.
//
// A Source is a policy as written. Compile resolves its paths, checks every value and indexes the rules; the result is
// immutable, and what can't be compiled says so by file, line and rule. Everything else asks the Compiled: CheckFS,
// CheckRename, CheckLink, CheckNet, CheckAddress, CheckEnv and CheckCommand answer with a Verdict. Package explain
// makes verdicts readable.
// Mechanisms read the tables of each Layer.
//
// # Layers
//
// Each authority is a Layer. A target is allowed only if every layer that declares the resource allows it, so adding a
// layer never allows more. The first layer is toolguard's own word: nobody may change its files or the policy files in
// force. Inside a layer the most specific rule wins, and in full: it inherits nothing from the ones it beats. Only what
// built-in files say of places outside the workspace is completed with what would decide there without it, when the policy is
// compiled.
//
// # Paths
//
// Rules are resolved when the policy is compiled, as the kernel would: component by component, symlinks and ".." in
// order. A rule that would mean another thing than it says (it leaves the workspace, loops, dangles, can't be looked
// at) is an error. What a target means is decided by the same walk; what can't be followed is denied.
//
// "/proc/self" is a word of the language, the session's own processes, and is never resolved. A target that leads
// through one of /proc's links to an object (cwd, exe, fd) is denied: only the process itself knows where it leads.
//
// Package fspath resolves and matches paths. The cost of a match depends on the path's length, not on the number of rules, and it
// doesn't allocate.
//
// # Renames
//
// A file must not gain a capability by moving, all layers taken together. A directory is judged by each layer alone,
// for whatever could be beneath it: no literal rule and no BASE may lie beneath either name, neither name may be a part
// of a pattern, what covers the two must not give more, and the patterns that could hit beneath must be the same or
// make no difference. It mustn't bring in a name that couldn't be created there, either.
//
// # Threats
//
// Whoever asks is hostile. A host name is compared in one normal form, and every other spelling of an address or of a
// host is refused and not repaired. On a connection whose protocol isn't known a rule that denies part of what could be
// said denies all of it. A URL's path that servers read in different ways matches no grant for a path and every denial
// for one. Names that collide in a hash table are told apart by their bytes. A Verdict's zero value denies.
package policy
