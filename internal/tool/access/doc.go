// Package access describes the access that a tool has to the tool itself: the JSON document that TOOLGUARD_CONTEXT names.
//
// The rules of all authorities are one list for each resource, in the fields of the reference: a tool that checks itself needs no other part of
// the document. What no rule declares is written out as rules, so that no list is absent. What these fields can't express is apart from
// them: patterns of names at any depth (Patterns), and the compiled policy, by which toolguard's own check and explain answer.
//
// # Threats
//
// The document informs the tool and decides nothing: the kernel enforces the policy, whatever the tool reads or ignores. Parse reads what a
// confined process may have written, so it bounds its size and accepts only a policy that Compile can have made.
package access
