//go:build linux

package attacks

// ownFilter is a stated gap of all backends.
const ownFilter = "a Landlock domain or a system call filter of its own"

// Landlock checks an operation on a name before the name is looked up, so the event of a create, delete or rename names
// the folder; bpf's names the entry.
var fsRows = []attack{
	{prog: "honest_work", args: "$WS $RO", tries: []try{
		{"read", ok, ok, noEvent("granted")},
		{"read-readonly", ok, ok, noEvent("granted")},
		{"create", ok, ok, noEvent("granted")},
		{"update", ok, ok, noEvent("granted")},
		{"rename", ok, ok, noEvent("granted")},
		{"link", ok, ok, noEvent("granted")},
		{"exchange", ok, ok, noEvent("granted")},
		{"unlink", ok, ok, noEvent("granted")},
		{"mkdir", ok, ok, noEvent("granted")},
		{"tmpdir", "ENOENT", ok, noEvent("granted")}, // bare there is no TMPDIR
		{"thread", ok, ok, noEvent("granted")},
		{"signal", ok, ok, noEvent("granted")},
	}},
	{prog: "read_ssh_key", args: "$KEY", tries: []try{
		{"openat", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"openat2", ok, "EACCES ENOSYS", noEvent("the same as openat's")},
		{"read-write", ok, "EACCES", fsEvent("", "$KEY", "outside_workspace")},
		{"open", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "own_domain", args: "$KEY $OUT/file.txt", gap: ownFilter, bpfGap: ownFilter, tries: []try{
		{"refuses-no-reads", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"refuses-reads", "EACCES", "EACCES", noEvent("stated gap")},
	}},
	{prog: "read_ssh_key_shell", args: "$KEY", tries: []try{
		{"shell", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"child", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "python_open", args: "$OUT $KEY", needs: python, tries: []try{
		{"read", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"create", ok, "EACCES", fsEvent("create", "$OUT", "outside_workspace")},
		{"listdir", ok, "EACCES", fsEvent("read", "$OUT", "outside_workspace")},
		{"child", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}, bpf: map[string]got{
		"create": {"EACCES", fsEvent("create", "$OUT/new", "outside_workspace")},
	}},
	{prog: "write_outside", args: "$OUT", tries: []try{
		{"create", ok, "EACCES", fsEvent("create", "$OUT", "outside_workspace")},
		{"open-for-writing", ok, "EACCES", fsEvent("update", "$OUT/file.txt", "outside_workspace")},
		{"append", ok, "EACCES", fsEvent("update", "$OUT/file.txt", "outside_workspace")},
		{"mkdir", ok, "EACCES", fsEvent("create", "$OUT", "outside_workspace")},
	}, bpf: map[string]got{
		"create": {"EACCES", fsEvent("create", "$OUT/new", "outside_workspace")},
		"mkdir":  {"EACCES", fsEvent("create", "$OUT/newdir", "outside_workspace")},
	}},
	{prog: "create_in_readonly", args: "$RO", tries: []try{
		{"file", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"mkdir", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"mkfifo", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"symlink", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"mknod", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"link", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"bind", ok, "EACCES EPERM", noEvent("unix_outside looks at it")},
	}, bpf: map[string]got{
		"file":    {"EACCES", fsEvent("create", "$RO/n1", "rule_denies").by("fs.3")},
		"mkdir":   {"EACCES", fsEvent("create", "$RO/n2", "rule_denies").by("fs.3")},
		"mkfifo":  {"EACCES", fsEvent("create", "$RO/n3", "rule_denies").by("fs.3")},
		"symlink": {"EACCES", fsEvent("create", "$RO/n4", "rule_denies").by("fs.3")},
		"mknod":   {"EACCES", fsEvent("create", "$RO/n5", "rule_denies").by("fs.3")},
		"link":    {"EACCES", fsEvent("create", "$RO/n6", "rule_denies").by("fs.3")},
		"bind":    {"EACCES", fsEvent("create", "$RO/n7", "rule_denies").by("fs.3")},
	}},
	{prog: "unlink_readonly", args: "$RO", tries: []try{
		{"unlink", ok, "EACCES", fsEvent("delete", "$RO", "rule_denies").by("fs.3")},
		{"rmdir", ok, "EACCES", fsEvent("delete", "$RO", "rule_denies").by("fs.3")},
	}, bpf: map[string]got{
		"unlink": {"EACCES", fsEvent("delete", "$RO/file.txt", "rule_denies").by("fs.3")},
		"rmdir":  {"EACCES", fsEvent("delete", "$RO/dir", "rule_denies").by("fs.3")},
	}},
	{prog: "truncate_rdonly", args: "$RO", tries: []try{
		{"open-trunc", ok, "EACCES", callEvent("openat")},
		{"truncate", ok, "EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
	}, bpf: map[string]got{
		"open-trunc": {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
	}},
	{prog: "creat_rdonly", args: "$RO", tries: []try{
		{"open-creat", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
		{"open-creat-excl", ok, "EACCES", fsEvent("create", "$RO", "rule_denies").by("fs.3")},
	}, bpf: map[string]got{
		"open-creat":      {"EACCES", fsEvent("create", "$RO/n1", "rule_denies").by("fs.3")},
		"open-creat-excl": {"EACCES", fsEvent("create", "$RO/n2", "rule_denies").by("fs.3")},
	}},
	{prog: "rename_out", args: "$WS $OUT", tries: []try{
		{"out", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace no_gain")},
		{"in", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace no_gain")},
	}, bpf: map[string]got{
		"out": {"EACCES", fsEvent("create", "$OUT/data.txt", "outside_workspace")},
		"in":  {"EACCES", fsEvent("delete", "$OUT/file.txt", "outside_workspace")},
	}},
	{prog: "link_out", args: "$WS $OUT", tries: []try{
		{"in", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace no_gain")},
		{"in-by-descriptor", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace no_gain")},
		{"out", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace no_gain")},
	}, bpf: map[string]got{
		"in":               {"EACCES", fsEvent("read", "$OUT/file.txt", "outside_workspace")},
		"in-by-descriptor": {"EACCES", fsEvent("read", "$OUT/file.txt", "outside_workspace")},
		"out":              {"EACCES", fsEvent("create", "$OUT/linked", "outside_workspace")},
	}},
	{prog: "rename_ancestor", args: "$RO $WS", tries: []try{
		{"ancestor", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace")},
		{"inner", ok, "EACCES EXDEV", fsEvent("", "", "rule_denies no_gain")},
		{"tree", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace")},
	}, bpf: map[string]got{
		"ancestor": {"EACCES", fsEvent("delete", "$DIR", "outside_workspace")},
		"inner":    {"EACCES", fsEvent("delete", "$RO/dir", "rule_denies").by("fs.3")},
		"tree":     {"EACCES", fsEvent("delete", "$RO", "rule_denies").by("fs.3")},
	}},
	{prog: "rename_exchange", args: "$WS $RO", tries: []try{
		{"exchange", ok, "EACCES EXDEV", fsEvent("", "", "rule_denies no_gain")},
	}, bpf: map[string]got{
		"exchange": {"EACCES", fsEvent("update+delete", "$RO/file.txt", "rule_denies").by("fs.3")},
	}},
	{prog: "symlink_outside", args: "$WS $KEY", tries: []try{
		{"file", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace workspace_escape")},
		{"folder", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace workspace_escape")},
		{"twice", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace workspace_escape")},
	}},
	{prog: "proc_aliases", args: "$WS $KEY", tries: []try{
		{"root", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"thread-root", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"cwd", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"dots", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"folder-descriptor", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "proc_fd_reopen", args: "$RO $KEY", tries: []try{
		{"opath-for-writing", ok, "EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		{"readonly-for-writing", ok, "EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		{"opath-for-reading", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "pipe_reopen", gap: "a pipe on 0", tries: []try{
		{"read-end-for-writing", ok, ok, noEvent("stated gap")},
		{"read-end-for-both", ok, ok, noEvent("stated gap")},
		{"write-end-for-reading", ok, ok, noEvent("stated gap")},
		{"read-end-again", ok, ok, noEvent("granted")},
	}, bpf: map[string]got{
		"read-end-for-writing":  {"EACCES", bpfEvent("open")},
		"read-end-for-both":     {"EACCES", bpfEvent("open")},
		"write-end-for-reading": {"EACCES", bpfEvent("open")},
	}},
	{prog: "tmpfile_link", args: "$WS $OUT $RO", tries: []try{
		{"link-out", ok, "EACCES EXDEV", fsEvent("", "", "outside_workspace no_gain")},
		{"in-readonly", ok, "EACCES", fsEvent("", "", "rule_denies")},
	}, bpf: map[string]got{
		"link-out":    {"EACCES", fsEvent("create", "$OUT/linked-tmp", "outside_workspace")},
		"in-readonly": {"EACCES", fsEvent("read+create", "", "rule_denies").by("fs.3")},
	}},
	{prog: "deep_path", args: "$WS $KEY", tries: []try{
		{"secret", ok, "EACCES ENAMETOOLONG", noEvent("the path may be too long for a record")},
		{"bottom", ok, "ok EACCES", noEvent("the workspace's own file")},
	}, bpf: map[string]got{
		"secret": {"EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		"bottom": {"EACCES", fsEvent("", "", "path_unresolved")},
	}},
	{prog: "component_boundary", args: "$GRANTED $SECRETARY", tries: []try{
		{"granted", ok, ok, noEvent("granted")},
		{"longer-name", ok, "EACCES", fsEvent("read", "$SECRETARY", "outside_workspace")},
	}},
	{prog: "swap_race", args: "$WS $KEY", tries: []try{
		{"swap", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace workspace_escape")},
	}},
	{prog: "own_files", args: "$POLICY $EVENTS", around: eventsFile, tries: []try{
		{"policy-write", ok, "EACCES", fsEvent("update", "$POLICY", "protected outside_workspace")},
		{"policy-rename", ok, "EACCES EXDEV", noEvent("the folder's event isn't the policy's")},
		{"events-write", ok, "EACCES", fsEvent("update", "$EVENTS", "protected outside_workspace")},
		{"events-truncate", ok, "EACCES", fsEvent("update", "$EVENTS", "protected outside_workspace")},
	}, bpf: map[string]got{
		"policy-rename": {"EACCES", fsEvent("delete", "$POLICY", "protected")},
	}},
	{prog: "setid", args: "$WS", gap: "created as setuid", tries: []try{
		{"setuid", ok, ok, noEvent("stated gap")},
		{"setgid", ok, ok, noEvent("stated gap")},
		{"unnamed", ok, ok, noEvent("stated gap")},
		{"node", ok, ok, noEvent("stated gap")},
		{"there", ok, ok, noEvent("granted")},
		{"folder", ok, ok, noEvent("granted")},
	}, bpf: map[string]got{
		"setuid":  {"EPERM", bpfEvent("create").on("$WS/setuid")},
		"setgid":  {"EPERM", bpfEvent("create").on("$WS/setgid")},
		"unnamed": {"EPERM", bpfEvent("open")},
		"node":    {"EPERM", bpfEvent("create").on("$WS/node")},
	}},
	{prog: "metadata", args: "$RO", gap: "chmod", tries: []try{
		{"chmod", ok, ok, noEvent("stated gap")},
		{"utimes", ok, ok, noEvent("stated gap")},
		{"chown", ok, ok, noEvent("stated gap")},
		{"fchmod", ok, ok, noEvent("stated gap")},
		{"futimens", ok, ok, noEvent("stated gap")},
		{"setxattr", ok, "EOPNOTSUPP", callEvent("setxattr")},
		{"acl", ok, "EOPNOTSUPP", callEvent("setxattr")},
	}, bpf: map[string]got{
		"chmod":    {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		"utimes":   {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		"chown":    {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		"fchmod":   {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		"futimens": {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		"setxattr": {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
		"acl":      {"EACCES", fsEvent("update", "$RO/file.txt", "rule_denies").by("fs.3")},
	}},
}

var execRows = []attack{
	{prog: "exec_denied", args: "$NOOP $RUN", tries: []try{
		{"execve", ok, "EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		{"interpreter", ok, "EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		{"execveat", ok, "EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		{"execveat-opath", ok, "EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		{"proc-fd", ok, "EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
	}},
	{prog: "exec_copy", args: "$NOOP $WS", tries: []try{
		{"copy", ok, "EACCES", fsEvent("execute", "$WS/copy", "rule_denies").by("fs.1")},
	}},
	// Where the session may execute files that it writes, memory files add nothing.
	{prog: "exec_memfd", args: "$NOOP $WS", more: "[[access.fs]]\npath = \"$RUN\"\nread = true\nexecute = true\n", anywhere: true, tries: []try{
		{"memfd", ok, "EACCES EPERM", callEvent("memfd_create")},
		{"memfd-exec", "ok EINVAL", "EACCES EPERM", callEvent("memfd_create")}, // MFD_EXEC is of Linux 6.3
		{"memfd-map", ok, "EACCES EPERM", callEvent("memfd_create")},
		{"memfd-mprotect", ok, "EACCES EPERM", callEvent("memfd_create")},
		{"tmpfile", ok, "EACCES", fsEvent("execute", "", "rule_denies")},
	}, bpf: map[string]got{
		"memfd":          {"EACCES", fsEvent("execute", "", "no_rule")},
		"memfd-exec":     {"EACCES EINVAL", fsEvent("execute", "", "no_rule")},
		"memfd-map":      {"EACCES", fsEvent("execute", "", "no_rule")},
		"memfd-mprotect": {"EACCES", fsEvent("execute", "", "no_rule")},
	}},
	{prog: "exec_binfmt", args: "$RUN", needs: binfmt, around: interpreters, gap: "binfmt_misc", tries: []try{
		{"registered", ok, "EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		{"registered-open", ok, "ok EACCES", noEvent("stated gap")}, // EACCES where the session's own domain is asked, as in Linux 6.1
	}, bpf: map[string]got{
		"registered-open": {"EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
	}},
	{prog: "exec_ldso", args: "$NOOP", gap: "ld.so", tries: []try{
		{"loader", ok, ok, noEvent("stated gap")},
		{"mmap", ok, ok, noEvent("stated gap")},
		{"mprotect", ok, ok, noEvent("stated gap")},
	}, bpf: map[string]got{
		"loader":   {"EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		"mmap":     {"EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
		"mprotect": {"EACCES", fsEvent("execute", "$NOOP", "rule_denies").by("fs.4")},
	}},
}
