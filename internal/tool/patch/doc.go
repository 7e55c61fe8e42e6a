// Package patch finds the files that a patch touches, and what it does to each, without applying it. It is pure.
//
// Two formats are read, also when they're mixed: unified diffs, git's and plain ones, and the format of apply_patch, which begins with
// "*** Begin Patch". Context diffs and what else can't be read are errors.
//
// # Which files
//
// A text that two programs read differently gives the files of both readings:
//
//   - lines of a hunk that some programs take for a header: "--- " and "+++ " before the line of a hunk. If the hunk has more or
//     fewer lines than it announces, each "--- " and "+++ " in it is one;
//   - a name of apply_patch with the blanks or quotes around it and without them;
//   - a name without a tab behind it, which ends at its first blank for GNU patch and at the end of the line for git;
//   - a name with its first folder and without it, unless the two names of each file begin with "a/" and "b/". Those are git's
//     prefixes, and are removed;
//   - headers of one format within a patch of the other.
//
// A file that may be created or updated is one of Create, which needs either. A file that may be deleted or only emptied is one of Delete
// and one of Modify.
//
// # Threats
//
// The text is the attacker's. Files returns more than one program would change, never less: package gate asks the policy about each. A
// name that can't be read is an error, and so are symlinks, because the paths of later files would lead through them, and headers behind
// a character at which only some programs end a line.
//
// Not found is what a patch doesn't say: programs that join its names to another folder (patch -d), and those that keep git's prefixes
// (patch -p0), strip more (-p2), or take the last component alone (GNU patch without -p). The kernel decides about those.
package patch
