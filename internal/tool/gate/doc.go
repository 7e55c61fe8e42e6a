// Package gate decides whether a tool call may run, from the call's own text and the policy under which the tool runs.
//
// It explains early; the kernel is the boundary. A call is read for the files, addresses and commands that it names. Each becomes a
// question to the compiled policy (explain.Ask), which is the one that the kernel enforces, so that the gate, check and the kernel agree.
// The strictest answer is that of the call: a denial wins over a question to a person, and that over a permission.
//
// The arguments of every tool are judged, by the names of the arguments (roles) and by what the tool does to its paths (its kind).
// Each reading that a tool could have of a path is judged: literal, trimmed, percent-decoded, as a URL, with the home for ~ and $HOME.
// Commands are read by packages shell and program, in turn and within each other, until nothing is left to read.
//
// # Threats
//
// A model wrote the call, perhaps under the influence of what it has read. What isn't understood is a question to a person, never an
// allowed call; under strict it's a denial. The work per call is bounded: by its size, its depth, the number of values that are judged, and
// how deep commands run commands. The package makes no system calls, except for looking at files by the FileSystem that it's given:
// where a symlink leads, and whether a file exists.
package gate
