package loader

// hook is what a program of bpf/ is attached to: bpf_lsm_NAME, with its key as NAME, or, for programs that only observe (fentry,
// tp_btf), the function or tracepoint.
type hook struct {
	mediates string
	// optional is the reason why a kernel without this hook enforces policies nevertheless; "" if the hook is required.
	optional string
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
	"security_file_free":  {mediates: "nothing: it forgets files that send signals"},
	"file_send_sigiotask": {mediates: "signals that files send"},

	// unix.c
	"socket_create":       {mediates: "making a socket"},
	"socket_post_create":  {mediates: "nothing: it remembers whose a socket is"},
	"socket_bind":         {mediates: "nothing: it remembers whose a unix socket is that was given to a session"},
	"socket_setsockopt":   {mediates: "options that have a socket take others' addresses or join groups"},
	"unix_stream_connect": {mediates: "connecting to a unix socket"},
	"unix_may_send":       {mediates: "sending to a unix socket"},
	"kern_path":           {mediates: "nothing: it tells the path by which a unix socket was found"},

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
	"file_receive":        {mediates: "descriptors that come from other processes"},
	"path_truncate":       {mediates: "truncating a file by its path"},
	"path_chmod":          {mediates: "changing a file's mode"},
	"path_chown":          {mediates: "changing a file's owner"},
	"path_notify":         {mediates: "watching a file or folder"},
	"mnt_want_write":      {mediates: "nothing: it tells the mount through which metadata is changed"},
	"mnt_want_write_file": {mediates: "nothing: it tells the mount of an open file whose metadata is changed"},
	"filename_lookup":     {mediates: "nothing: it tells the path that readlink asks for"},
	"user_path_at_empty":  {mediates: "nothing: it tells the path that readlink asks for", optional: "since Linux 6.11 filename_lookup is called instead"},
	"inode_readlink":      {mediates: "reading a symlink's text"},
	"inode_setattr":       {mediates: "changing a file's times"},
	"inode_setxattr":      {mediates: "extended attributes"},
	"inode_removexattr":   {mediates: "removing extended attributes"},
	"inode_set_acl":       {mediates: "access control lists", optional: "before Linux 6.2 they are extended attributes"},
	"inode_remove_acl":    {mediates: "removing access control lists", optional: "before Linux 6.2 they are extended attributes"},
	"inode_file_setattr":  {mediates: "file flags by a call of their own", optional: "before Linux 6.17 only ioctl changes them"},
	"file_ioctl":          {mediates: "ioctl on files, and typing into terminals"},
	"file_ioctl_compat":   {mediates: "ioctl of 32-bit calls", optional: "before Linux 6.8 they come by file_ioctl"},

	// exec.c
	"bprm_creds_for_exec":  {mediates: "the beginning of an execve, and who only asks whether it would be allowed"},
	"bprm_check_security":  {mediates: "what is executed"},
	"bprm_committed_creds": {mediates: "the arguments of what is executed"},
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
	"kernel_module_request": {mediates: "kernel modules, asked for by what a process does"},
	"kernel_read_file":      {mediates: "kernel modules and kernels, from files"},
	"kernel_load_data":      {mediates: "kernel modules and kernels, from memory"},
	"uring_allowed":         {mediates: "io_uring", optional: "before Linux 6.15 the filter of system calls alone refuses it"},
	"uring_sqpoll":          {mediates: "io_uring with a thread of the kernel's"},
	"uring_cmd":             {mediates: "ioctl by io_uring"},
	"uring_override_creds":  {mediates: "io_uring with registered credentials"},

	// syscall.c
	"audit_seccomp": {mediates: "nothing: it tells of refused system calls", optional: "without CONFIG_AUDITSYSCALL nobody is told of refused system calls"},
}
