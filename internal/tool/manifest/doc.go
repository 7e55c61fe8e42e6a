// Package manifest is the permission manifest: what each tool, agent and stage of a policy may touch, in a file that people review and
// programs compare. Pure.
//
// A manifest is the same on every machine: paths are relative to the workspace or to the home, and no file system is consulted. It has all
// that decides about access, so that Verify needs no policy: it compiles the rules of both manifests and asks them. The machine's own
// policies aren't in it. They only restrict.
//
// Verify reports what only the new manifest permits. For files it visits every combination of deciding rules that some path has (see
// paths.go), for the other resources the targets at which a decision can change. Each widening of access has a witness: a question that the
// old manifest's policy denies and the new one's allows.
package manifest
