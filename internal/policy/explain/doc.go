// Package explain answers questions about a policy for people and for machines.
//
// Ask decides a question in text and makes the verdict readable: which rule decided, where it is, and the smallest rule that would allow
// what was denied. Explain adds every rule that matched, and why one of them won. Lint finds what a policy may say but probably does
// not mean, Unmatched the rules that match nothing on this machine, Scan the files whose hard links lead around a rule, and Diff what
// changed between two policies in what they mean.
//
// The package decides nothing: it asks package policy, and reads the same tables.
//
// # Threats
//
// What is suggested is pasted into policies by people who are in a hurry. A suggestion grants no other request than the denied one;
// secrets, protected files, sockets that lead to root, whole homes and random names get advice instead of a rule.
package explain
