// Package hostfs provides the files of this machine, for reading policies and for resolving paths.
//
// Machine is the fspath.FileSystem that policies are compiled for, and the policyfile.Files that they are read from. It asks the system
// itself where package os would cost more: every session starts with some hundred questions.
//
// # Guarantees
//
// Read opens regular files only, without blocking, and reads at most a limit. ReadTrusted and List check that only root can have
// written the file or the folder, and every folder above it: on the open file, not on a name that could be replaced.
// OwnedByRoot handles user namespaces in which root has no ID.
//
// # Threats
//
// An ordinary user, or an earlier session, made the files: fifos, devices, files that grow, symlinks.
package hostfs
