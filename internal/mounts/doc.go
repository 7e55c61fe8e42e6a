// Package mounts computes what the mount namespace of a session has to do so that, together with Landlock within it, it enforces the rules
// about files that Landlock alone can't: those that take capabilities away beneath a grant.
//
// # Semantics
//
// A [Plan] begins with the whole file system, read-only. Each further [Mount] has one of three modes. ReadWrite and ReadOnly bind a path onto
// itself. Hidden covers it: a folder by an empty one, a file by one that can't be opened. A mount is made only where the mode must change, or
// where a path must not be moved. Landlock grants by hierarchy, so beneath a grant it permits too much where a deeper rule takes away. [New]
// compares, at the path of every rule and at every existing entry that a pattern matches, what Landlock permits with what all layers of the
// compiled policy together permit, and selects the strictest mode that keeps all of the latter.
//
// Mounts can't take away every set of capabilities. They can take away all writing; everything; and, on a single file, creating and deleting.
// Execute alone, delete without update and the like are reported as not enforceable. Files that `secrets` covers are hidden: they can't be
// written either, and the report says that. A path that doesn't exist has no mount: its rule isn't enforceable if the path could be created or
// used. Patterns are searched for in the granted trees, at most [MaxEntries] entries; their rows are at most "partly", as names that are
// created later aren't covered.
//
// A mount covers names, not files. What the mounts cover is searched for files with more hard links than the names that a mount at least as strict
// covers, at most [MaxEntries] entries in the workspace and elsewhere; the rows of the rules that deny something there are then at most "partly", and name one of the files.
//
// # Threats
//
// Mounts are attached to names. A session that renames a folder above a mount moves the mount along, and can put something else in its place.
// Every folder between a writable tree and a mount in it is therefore a mount itself: the kernel denies rename and rmdir of a mount point with
// EBUSY (vfs_rename, d_mountpoint), and hard links and renames across mounts with EXDEV. The search doesn't follow symlinks; a symlink that
// a pattern matches can't be covered and makes the rule not enforceable.
//
// Between the search and the mounting, a process outside the session, such as another session in the same workspace, can replace a folder by a
// symlink, exchange it or move it, and put it back later. A plan therefore has the device, inode number and birth time of what each mount
// shows, found without following symlinks. [Verify] runs in the mount namespace before the command starts, and fails unless every mount is where the
// plan has it, and shows that inode or, where it hides something, an inaccessible stand-in. What a stand-in covers can't be seen from within: a
// process outside that moves a hidden or protected file or folder, before or after, leaves it without its mount; this is a stated gap.
package mounts
