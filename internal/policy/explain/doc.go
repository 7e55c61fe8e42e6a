// Package explain answers questions about a policy for people and for machines.
//
// Ask decides a question in text and makes the verdict readable: which rule decided, where it is, and the smallest rule that would allow
// what was denied. Explain adds every rule that matched, and why one of them won. Lint finds probable mistakes in
// a valid policy, Unmatched the rules that match nothing on this machine, Scan the files whose hard links bypass a rule, and Diff the
// differences in meaning between two policies.
//
// The package decides nothing: it asks package policy, and reads the same tables.
//
// # Threats
//
// People in a hurry paste suggestions into policies. A suggestion grants no other request than the denied one;
// secrets, protected files, sockets that lead to root, whole homes and random names get advice instead of a rule.
package explain
