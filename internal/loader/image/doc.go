// Package image lays a compiled policy out as the bytes that the BPF programs read. It is pure: the same policy gives an image of the
// same size anywhere, and nothing here asks the kernel.
//
// An image is an array of 64-byte lines (bpf/lib/image.h says what each piece is). It has the trie of all paths that rules name, with the
// hits of every table of rules at their nodes (trie.go); the patterns, as sets of bits that move on with each component (patterns.go); what
// executing a program takes (commands.go); where the aliases of mounted folders begin (aliases.go); and the rules about files with several
// hard links, by inode. Names are found by a hash (hash.go), which bpf/lib/hash.h has, too.
//
// Guarantees: New fails where the programs could not follow all of a policy, since a policy that is followed in part would grant what it
// denies. The fuzzed comparison in package loader holds the programs' answers to policy.Compiled.CheckFS's. Generation tells the images of
// one session apart, in its events.
package image
