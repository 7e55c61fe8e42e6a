// Package policyfile reads policy files: TOML in, policy.Source out.
//
// # The format
//
// A file is decoded strictly, by one generic decoder that is driven by the Go structs of this package (Policy and its
// fields). The same structs yield the JSON Schema, so the two can't drift apart. A key that no struct names, a key in
// another case, a value of another type or outside its closed list is an error with file, line and column and, where one
// is near, the key or word that was probably intended. All mistakes of one reading are reported together. Nothing is ever
// ignored.
//
// # Layers
//
// Files that `extends` names come first, in order, each once; then the file itself; repeated policies follow each
// other. Inside one authority these are merged: lists append unless they are written { strategy = "…", value = […] },
// scalars of later files win. Authorities are never merged with each other: Load returns one layer for each, and package
// policy allows only what all of them allow. For the same reason a session's file can't have a policy of the host, nor of an
// authority of which a host's file has one.
//
// # Threats
//
// A policy file may come from a hostile repository. Its size, its nesting, the length of its keys and the number and depth
// of the files that it pulls in are bounded before anything recursive sees it; only regular files are opened; a file of
// the host's folder is used only when no process but root's could have written it, which is tested on the opened file.
package policyfile
