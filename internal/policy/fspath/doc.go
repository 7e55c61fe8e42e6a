// Package fspath has paths: resolved as the kernel resolves them, and matched by a trie and patterns.
//
// A Resolver follows a path through a FileSystem component by component, symlinks and ".." in order, as the kernel does. What cannot be
// followed is an error: a loop, a NUL byte, ".." after something that does not exist, and the links of /proc that only the process
// itself can follow. "/proc/self" is a word of the policy language, the session's own processes, and stays as it is.
//
// A Table matches canonical paths against entries: literal paths, which match everything beneath them, and patterns
// BASE/**/LAST/NAME…. The deepest match decides; at one depth a literal entry before a pattern, then the later entry. The cost depends
// on the path's length, not on the number of entries, and a lookup does not allocate. Trace returns every match, by the same steps.
//
// An Alias is a second path of a file by a bind mount, or by a file system that is mounted twice. MountTable finds them.
//
// The package knows no rules: its results are indexes of entries. Package policy has the rules.
//
// # Threats
//
// The confined process chooses the path, and its file tree has symlinks, mounts and hard links that an attacker made. Every loop here is
// bounded by MaxPath, MaxDepth and the kernel's limit on symlinks. Names that collide in a hash table are compared by their bytes.
package fspath
