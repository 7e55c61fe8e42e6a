// Package image lays a compiled policy out as the bytes that the BPF programs read. It is pure: it makes no system call, and the same
// policy has an image of the same size everywhere.
//
// An image is an array of 64-byte lines, which bpf/lib/image.h defines. It has the trie of all paths that rules name, with the hits of
// every table of rules at their nodes (trie.go); the patterns, as sets of bits that advance with each component (patterns.go); the rules
// about executing programs (commands.go); the aliases of mounted folders (aliases.go); and the rules about files with several hard
// links, by inode number. Names are found by a hash (hash.go), which bpf/lib/hash.h has, too.
//
// Guarantees: New fails if the programs can't follow all of a policy, since a policy that is followed in part would grant what it denies.
// Fuzzed tests in package loader compare the programs' decisions with policy.Compiled.CheckFS. Generation identifies the images of one
// session in its events.
package image
