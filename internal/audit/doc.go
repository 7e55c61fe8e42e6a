// Package audit stores events in a spool: files that are only appended to, in which any later change is detectable.
//
// # Format
//
// A spool is a folder. Its files are numbered from 000000000001.jsonl. Each line is one event in OCSF, as package event writes it.
// Events are numbered without gaps across files, restarts and boots. Each record has its own fingerprint and that of the previous
// record, in whichever file that is (attestation_list; OCSF 1.9). The fingerprint is the SHA-256 of the record's text without the
// fingerprint's member. It needs no canonical form, because the stored bytes are hashed. Records of versions up to 0.1.0 (OCSF
// 1.8) have only the SHA-256 of the previous line, with its newline, in unmapped.record_integrity.prev_event. They are read and
// continued as they are.
//
// Checkpoints are events, too. Each has an Ed25519 signature of the spool's id, the checkpoint's number and its link to the
// previous record, and thereby of all records before it. A checkpoint follows each event within a minute. The file "head" has the
// signed position of the spool's end, and of its beginning once files have been removed. It is written after every fsync, so that
// everything before the end is on the disk. Readers stop at this end.
//
// # Keys
//
// Only root can read the file "key". Each new file of the spool replaces the key by its hash: the last checkpoint of the old file
// names the next key. Who obtains the key later can't sign for finished files.
//
// # Limits of detection
//
// Root can rewrite the whole spool with a new key. Only something stored elsewhere detects this: the first key, or any checkpoint,
// which the sinks have. Without it, root can also restore an older copy of the folder, or truncate the spool to the beginning of
// the current file and sign that. Events that toolguardd has received but not written are lost if it is killed; the next
// toolguardd reports that.
package audit
