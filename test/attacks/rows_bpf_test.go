//go:build linux

package attacks

// ringsGranted allows io_uring, which stays denied where no mechanism sees its requests (TestRingsStayDenied).
const ringsGranted = `
[access.syscalls]
allow = ["io_uring_setup", "io_uring_enter", "io_uring_register"]
`

// bpfRows are those whose policies only the bpf backend can enforce.
var bpfRows = []attack{
	{prog: "carve_out", args: "$WS $RUN", more: `
[[access.fs]] # fs.7
path = "private"

[[access.fs]] # fs.8
path = "kept"
read = true

[[access.fs]] # fs.9
path = "nest/inner"
read = true
`, tries: []try{
		{"open", ok, "EACCES", fsEvent("read", "$WS/private/key", "rule_denies").by("fs.7")},
		{"list", ok, "EACCES", fsEvent("read", "$WS/private", "rule_denies").by("fs.7")},
		{"create", ok, "EACCES", fsEvent("create", "$WS/private/new", "rule_denies").by("fs.7")},
		{"delete", ok, "EACCES", fsEvent("delete", "$WS/private/other", "rule_denies").by("fs.7")},
		{"symlink", ok, "EACCES", fsEvent("read", "$WS/private/key", "rule_denies").by("fs.7")},
		{"fchdir", ok, "EACCES", fsEvent("read", "$WS/private/key", "rule_denies").by("fs.7")},
		{"opath", ok, "EACCES", fsEvent("read", "$WS/private/key", "rule_denies").by("fs.7")},
		{"text", ok, "EACCES", fsEvent("read", "$WS/private/key-by-link", "rule_denies").by("fs.7")},
		{"text-opath", ok, "EACCES", fsEvent("read", "$WS/private/key-by-link", "rule_denies").by("fs.7")},
		{"through", ok, ok, noEvent("granted")},
		{"gain-update", ok, "EXDEV", fsEvent("link", "$WS/kept/file", "no_gain")},
		{"gain-execute", ok, "EXDEV", fsEvent("rename", "$WS/data.txt", "no_gain")},
		{"link", ok, "EACCES", fsEvent("read", "$WS/private/key", "rule_denies").by("fs.7")},
		{"rename", ok, "EACCES", fsEvent("delete", "$WS/private/key", "rule_denies").by("fs.7")},
		{"exchange-above", ok, "EXDEV", fsEvent("rename", "$WS/nest", "no_gain")},
		{"rename-above", ok, "EXDEV", fsEvent("rename", "$WS/nest", "no_gain")},
	}},
	{prog: "dot_env", args: "$WS", more: `
[[access.fs]] # fs.7
match = "**/.env"
`, tries: []try{
		{"read", ok, "EACCES", fsEvent("read", "$WS/.env", "rule_denies").by("fs.7")},
		{"append", ok, "EACCES", fsEvent("update", "$WS/.env", "rule_denies").by("fs.7")},
		{"truncate", ok, "EACCES", fsEvent("update", "$WS/.env", "rule_denies").by("fs.7")},
		{"create", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"mkdir", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"mkfifo", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"symlink", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"link", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"bind", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"rename-to", ok, "EACCES", fsEvent("create", "$WS/sub/.env", "rule_denies").by("fs.7")},
		{"exchange", ok, "EACCES", fsEvent("", "$WS/.env", "rule_denies").by("fs.7")},
		{"alias", ok, "EACCES", fsEvent("read", "$WS/.env", "rule_denies").by("fs.7")},
		{"unlink", ok, "EACCES", fsEvent("delete", "$WS/.env", "rule_denies").by("fs.7")},
		{"rename-from", ok, "EACCES", fsEvent("delete", "$WS/.env", "rule_denies").by("fs.7")},
	}},
	{prog: "io_uring_granted", args: "$KEY $OUT $WS $STREAM", around: victim, more: ringsGranted, tries: []try{
		{"open", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"open-by-worker", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"create", ok, "EACCES", fsEvent("create", "$OUT/new", "outside_workspace")},
		{"create-by-worker", ok, "EACCES", fsEvent("create", "$OUT/new2", "outside_workspace")},
		{"mkdir", ok, "EACCES", fsEvent("create", "$OUT/folder", "outside_workspace")},
		{"symlink", ok, "EACCES", fsEvent("create", "$OUT/symlink", "outside_workspace")},
		{"link-in", ok, "EACCES", fsEvent("read", "$OUT/file.txt", "outside_workspace")},
		{"move-out", ok, "EACCES", fsEvent("create", "$OUT/moved", "outside_workspace")},
		{"delete", ok, "EACCES", fsEvent("delete", "$OUT/file.txt", "outside_workspace")},
		{"inet", ok, "EACCES EPERM", bpfEvent("socket")},
		{"connect", ok, "EACCES", fsEvent("update", "$STREAM", "outside_workspace")},
		{"connect-by-worker", ok, "EACCES", fsEvent("update", "$STREAM", "outside_workspace")},
	}},
	{prog: "git_hooks", args: "$WS", more: "\n# as it is: protect is auto\n", tries: []try{
		{"hook", ok, "EACCES", fsEvent("create", "$WS/repo/.git/hooks/pre-commit", "protected")},
		{"config", ok, "EACCES", fsEvent("update", "$WS/repo/.git/config", "protected")},
		{"config-replaced", ok, "EACCES", fsEvent("update", "$WS/repo/.git/config", "protected")},
		{"mode", ok, "EACCES", fsEvent("update", "$WS/repo/.git/hooks/sample", "protected")},
		{"symlink", ok, "EACCES", fsEvent("create", "$WS/repo/.git/hooks/by-symlink", "protected")},
		{"link", ok, "EACCES", fsEvent("create", "$WS/repo/.git/hooks/linked", "protected")},
		{"moved-away", ok, "EXDEV", fsEvent("rename", "$WS/repo/.git", "no_gain")},
		{"above-moved-away", ok, "EACCES", fsEvent("create", "$WS/elsewhere/.git/hooks/above-away", "protected")},
		{"prepared", ok, "EXDEV", fsEvent("rename", "$WS/prepared", "no_gain")},
		{"exchanged", ok, "EXDEV", fsEvent("rename", "$WS/other", "no_gain")},
		{"nested", ok, "EACCES", fsEvent("create", "$WS/deep/.git/hooks", "protected")},
	}},
	{prog: "docker_sock", args: "$STREAM $DGRAM $WS", around: victim, more: `
[[access.fs]] # fs.7
path = "$DIR/peer"
read = true

[[access.fs]] # fs.8
path = "$DIR/peer/dgram"
update = true
`, tries: []try{
		{"path", ok, "EACCES", fsEvent("update", "$STREAM", "rule_denies").by("fs.7")},
		{"symlink", ok, "EACCES", fsEvent("update", "$STREAM", "rule_denies").by("fs.7")},
		{"proc-root", ok, "EACCES", fsEvent("update", "$STREAM", "rule_denies").by("fs.7")},
		{"folder", ok, "EACCES", fsEvent("update", "$STREAM", "rule_denies").by("fs.7")},
		{"granted", ok, ok, noEvent("granted")},
	}},
	{prog: "argv_rules", needs: twoProcessors, args: "$BIN/noop $RUN/unlisted $RUN $RUN/script $RUN/linked $RUN/named", around: listed, more: `
[access.commands."$BIN/argv_rules"]

[access.commands."$RUN/script"]

[access.commands."$RUN/linked"]

[access.commands."$RUN/named"]

[access.commands."$BIN/noop"]
args = [["allowed"], ["any-rest", "**"], ["linked", "**"], ["named", "**"],
	["called-otherwise"], ["called-before"], ["called-within"], ["called-nothing"], ["called-path"], ["called-long"], ["called-longer"],
	["under-other"], ["second-mixed"], ["second-called"], ["second-first"], ["descriptor-allowed"], ["by-proc"]]

[access.commands."$RUN/second"]
args = [["second"], ["first-second"]]
`, tries: []try{
		{"allowed", ok, ok, noEvent("granted")},
		{"any-rest", ok, ok, noEvent("granted")},
		{"other", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"longer", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"descriptor", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"empty", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"interpreter", ok, "EACCES SIGKILL", commandEvent("$BIN/noop", "args_not_listed")},
		{"unlisted", ok, "EACCES", commandEvent("$RUN/unlisted", "command_not_listed")},
		{"called-otherwise", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"called-before", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"called-within", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"called-nothing", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"called-path", ok, ok, noEvent("granted")},
		{"called-long", ok, ok, noEvent("granted")},
		{"called-longer", ok, "SIGKILL", commandEvent("$BIN/noop", "args_not_listed")},
		{"under-other", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"second", ok, ok, noEvent("granted")},
		{"second-mixed", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"second-called", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"second-first", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"first-second", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"descriptor-allowed", ok, ok, noEvent("granted")},
		{"linked", ok, "EACCES SIGKILL", commandEvent("$BIN/noop", "args_not_listed")},
		{"named", ok, ok, noEvent("granted")},
		{"asked", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"asked-unlisted", ok, "EACCES", commandEvent("$RUN/unlisted", "command_not_listed")},
		{"asked-allowed", ok, ok, noEvent("granted")},
		{"by-proc", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
		{"copy", ok, "EACCES", commandEvent("$RUN/copy", "command_not_listed")},
		{"loader", ok, "EACCES", commandEvent("", "command_not_listed")},
		{"race", ok, "EACCES", commandEvent("$BIN/noop", "args_not_listed")},
	}},
	{prog: "mounted", args: "$DIR/mnt/none $DIR/mnt/overlay", around: mounts, needs: root, more: `
[[access.fs]] # fs.7
path = "$DIR/mnt"
read = true

[[access.fs]] # fs.8
path = "$DIR/mnt/none"
`, tries: []try{
		{"tmpfs-read", ok, "EACCES", fsEvent("read", "$DIR/mnt/none/file", "rule_denies").by("fs.8")},
		{"tmpfs-create", ok, "EACCES", fsEvent("create", "$DIR/mnt/none/new", "rule_denies").by("fs.8")},
		{"overlay-read", ok, ok, noEvent("granted")},
		{"overlay-empty", ok, "EACCES", fsEvent("update", "$DIR/mnt/overlay/note", "rule_denies").by("fs.7")},
		{"overlay-kept", "ENODATA", ok, noEvent("calls no LSM")},
		{"overlay-write", ok, "EACCES", fsEvent("update", "$DIR/mnt/overlay/note", "rule_denies").by("fs.7")},
		{"overlay-chmod", ok, "EACCES", fsEvent("update", "$DIR/mnt/overlay/note", "rule_denies").by("fs.7")},
	}},
}
