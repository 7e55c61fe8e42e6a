package darwin

// StatedGaps returns the accesses that no profile can see or deny, under any policy. Gaps that deny too much are last.
func StatedGaps() []string {
	return []string{
		"names, sizes, link targets and times of all files are visible, and so is the list of the root folder: programs need it to start",
		"seatbelt decides on the two names of a rename separately: what may be read and deleted can be renamed to where it has more capabilities, " +
			"which a copy would have too; a folder takes along what can't be read in it, which may be changed or executed there as the new place's rules say",
		"a rename onto an existing file needs create and delete there, not update",
		"what is in a folder isn't decided on when the folder is moved into or out of what a rule with `unprotect` or `secret` grants; see the rows of those rules",
		"seatbelt goes by paths: a hard link that was made before the session has the capabilities of its own path",
		"127.0.0.1 and ::1 are the same, and who may listen there may listen on 0.0.0.0",
		"the services of launchd in the profile's list answer every session: they have names of users and groups, and they log",
		"POSIX semaphores are shared with other processes of the same user",
		"a descriptor that is open when the session starts (0, 1, 2, --pass-fd) isn't decided on again",
		"denials are read from the unified log, which loses and merges some",
		"denies too much: what can't be read can't be deleted or renamed",
		"denies too much: in the private TMPDIR and in the folders of caches, files whose names are those of secrets can't be read",
		"denies too much: folders above a rule, and folders that are a part of a pattern (.git, .github), can't be created, removed or renamed",
		"denies too much: programs that verify certificates by trustd (those written in Go or Swift) can't, unless every host is allowed",
		"denies too much: programs that ignore proxy variables reach no host that is allowed by name",
		"denies too much: the session sees no other process, not even its name",
	}
}
