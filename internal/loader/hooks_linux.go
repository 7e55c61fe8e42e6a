package loader

// hook is the attach point of a program of bpf/: bpf_lsm_NAME, with its key as NAME, or, for programs that only observe (fentry,
// tp_btf), the function or tracepoint.
type hook struct {
	mediates string
	// optional is the reason why a kernel without this hook enforces policies nevertheless; "" if the hook is required.
	optional string
	// twice is set for a program that records something for a hook. The kernel skips a tracing program on a processor where a task was
	// preempted within it, and the hook denies without the record. It skips both copies only where two tasks were.
	twice bool
}

// hooks lists every program of the object. bpf/lsm/*.c names the callers of each.
var hooks = map[string]hook{
	// task.c
	"task_alloc":          {mediates: "new tasks: they get the label of the one that makes them"},
	"task_free":           {mediates: "nothing: it counts a session's tasks"},
	"sched_process_exit":  {mediates: "nothing: it counts those that live"},
	"task_kill":           {mediates: "signals"},
	"task_setnice":        {mediates: "priorities of other processes"},
	"task_setioprio":      {mediates: "I/O priorities of other processes"},
	"task_setscheduler":   {mediates: "scheduling and processors of other processes"},
	"task_setrlimit":      {mediates: "limits of other processes"},
	"task_movememory":     {mediates: "moving other processes' memory"},
	"ptrace_access_check": {mediates: "tracing, and reading another process's memory and descriptors"},
	"ptrace_traceme":      {mediates: "asking to be traced"},
	"file_fcntl":          {mediates: "files that send signals"},
	"security_file_free":  {mediates: "nothing: it removes the records of files that send signals"},
	"file_send_sigiotask": {mediates: "signals that files send"},

	// unix.c
	"socket_create":       {mediates: "making a socket"},
	"socket_post_create":  {mediates: "nothing: it remembers whose a socket is"},
	"socket_bind":         {mediates: "nothing: it records the owner of a unix socket that a session received"},
	"socket_setsockopt":   {mediates: "options by which a socket uses foreign addresses or joins groups"},
	"unix_stream_connect": {mediates: "connecting to a unix socket"},
	"unix_may_send":       {mediates: "sending to a unix socket"},
	"kern_path":           {mediates: "nothing: it records the path by which a unix socket was found", twice: true},

	// directory.c
	"path_mknod":   {mediates: "creating a file, fifo, socket or device"},
	"path_mkdir":   {mediates: "creating a folder"},
	"path_symlink": {mediates: "creating a symlink"},
	"path_unlink":  {mediates: "deleting a file"},
	"path_rmdir":   {mediates: "deleting a folder"},
	"path_link":    {mediates: "making a hard link"},
	"path_rename":  {mediates: "renaming"},

	// file.c
	"file_open":           {mediates: "opening a file or folder"},
	"file_receive":        {mediates: "descriptors from other processes"},
	"path_truncate":       {mediates: "truncating a file by its path"},
	"path_chmod":          {mediates: "changing a file's mode"},
	"path_chown":          {mediates: "changing a file's owner"},
	"path_notify":         {mediates: "watching a file or folder"},
	"mnt_want_write":      {mediates: "nothing: it records the mount through which metadata is changed", twice: true},
	"mnt_want_write_file": {mediates: "nothing: it records the mount of an open file whose metadata is changed", twice: true},
	"filename_lookup":     {mediates: "nothing: it records the path that readlink reads", twice: true},
	"user_path_at_empty":  {mediates: "nothing: it records the path that readlink reads", optional: "since Linux 6.11 filename_lookup is called instead", twice: true},
	"inode_readlink":      {mediates: "reading a symlink's text"},
	"inode_setattr":       {mediates: "changing a file's times"},
	"inode_setxattr":      {mediates: "extended attributes"},
	"inode_removexattr":   {mediates: "removing extended attributes"},
	"inode_set_acl":       {mediates: "access control lists", optional: "before Linux 6.2 they are extended attributes"},
	"inode_remove_acl":    {mediates: "removing access control lists", optional: "before Linux 6.2 they are extended attributes"},
	"inode_file_setattr":  {mediates: "file flags by a call of their own", optional: "before Linux 6.17 only ioctl changes them"},
	"file_ioctl":          {mediates: "ioctl on files, and typing into terminals"},
	"file_ioctl_compat":   {mediates: "ioctl of 32-bit calls", optional: "before Linux 6.8 file_ioctl is called for them"},

	// exec.c
	"bprm_creds_for_exec":  {mediates: "the start of an execve, and its mere check (AT_EXECVE_CHECK)"},
	"bprm_check_security":  {mediates: "executed programs"},
	"bprm_committed_creds": {mediates: "the arguments of executed programs"},
	"mmap_file":            {mediates: "mapping a file executable"},
	"file_mprotect":        {mediates: "making a mapped file executable"},

	// kernel.c
	"sb_mount":              {mediates: "mounting"},
	"move_mount":            {mediates: "moving and attaching mounts"},
	"sb_umount":             {mediates: "unmounting"},
	"sb_remount":            {mediates: "changing a file system's options"},
	"sb_pivotroot":          {mediates: "pivot_root"},
	"path_chroot":           {mediates: "chroot"},
	"userns_create":         {mediates: "new user namespaces"},
	"bpf":                   {mediates: "the bpf call"},
	"perf_event_open":       {mediates: "performance events"},
	"kernel_module_request": {mediates: "kernel modules that a process's actions load"},
	"kernel_read_file":      {mediates: "kernel modules and kernels, from files"},
	"kernel_load_data":      {mediates: "kernel modules and kernels, from memory"},
	"uring_allowed":         {mediates: "io_uring", optional: "before Linux 6.15 only the system call filter denies it"},
	"uring_sqpoll":          {mediates: "io_uring with a thread of the kernel's"},
	"uring_cmd":             {mediates: "ioctl by io_uring"},
	"uring_override_creds":  {mediates: "io_uring with registered credentials"},

	// syscall.c
	"audit_seccomp": {mediates: "nothing: it reports denied system calls", optional: "without CONFIG_AUDITSYSCALL denied system calls aren't reported"},
}
