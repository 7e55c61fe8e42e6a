// Package audit keeps events: a spool of files that are only ever appended to, in which any change shows.
//
// # Form
//
// A spool is a folder. Its files are named by number, 000000000001.jsonl and on; each line is one event as package event renders
// it for machines. Events are numbered without a gap from the spool's first one on, across files, restarts and boots, and each
// has its own fingerprint, and that of the record before it, whichever file that is in (attestation_list; OCSF 1.9). The fingerprint is the
// SHA-256 of the record's text without the fingerprint's member: there's nothing to canonicalize, what is hashed are the bytes that lie there.
// Records of versions up to 0.1.0 (OCSF 1.8) have only the SHA-256 of the line before, the newline included, in
// unmapped.record_integrity.prev_event, and are read and gone on from as they are.
//
// Checkpoints are events too. Each has an Ed25519 signature of the spool's id, its own number and its link, thus of all that is
// before it; one comes within a minute after each event. The file "head" says, signed, where the spool ends, and where it begins once
// files have been removed to make room. It's written after every fsync, and what it says is on the disk: readers go no further.
//
// # Keys
//
// The file "key" is root's. With every new file of the spool the key is replaced by its own hash: the last checkpoint of the old
// file names the next key. Whoever reads the key later can't sign for files that were finished before.
//
// # What can't be found
//
// Whoever is root can write all of it anew with a key of his own. It takes something kept elsewhere to find that: the first key, or any
// checkpoint, as the sinks have them. Without one, root can also put back an older copy of the whole folder, or cut off what came after
// the current file began and sign that. What was heard and not yet written when toolguardd is killed is lost; the next one says so.
package audit
