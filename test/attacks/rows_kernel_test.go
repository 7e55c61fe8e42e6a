//go:build linux

package attacks

// Most of these have no control as an ordinary user, whom the kernel denies them anyway; a new user namespace or a
// kernel set up otherwise would bring them into reach.
var kernelRows = []attack{
	{prog: "io_uring", tries: []try{
		{"setup", "ok EPERM ENOSYS", "EPERM ENOSYS", callEvent("io_uring_setup")},
	}},
	{prog: "kernel_doors", args: "$WS/data.txt", tries: []try{
		{"bpf", "ok / nobody ok EPERM", "EPERM", callEvent("bpf")},
		{"perf_event_open", "ok / nobody ok EACCES", "EPERM", callEvent("perf_event_open")},
		{"userfaultfd", ok, "EPERM", callEvent("userfaultfd")},
		{"add_key", ok, "EPERM", callEvent("add_key")},
		{"request_key", "ENOKEY ENOENT EACCES", "EPERM", callEvent("request_key")}, // there is no such key
		{"keyctl", ok, "EPERM", callEvent("keyctl")},
		{"open_by_handle_at", "ok / nobody EPERM", "EPERM", callEvent("open_by_handle_at")},
		// From here on the arguments are wrong on purpose: the control is the kernel's complaint about them.
		{"remap_file_pages", "EINVAL", "ENOSYS", callEvent("remap_file_pages").by("seccomp.remap")},
		{"init_module", "ENOEXEC EFAULT ENOSYS / nobody EPERM ENOSYS", "EPERM", callEvent("init_module")},
		{"finit_module", "EBADF ENOSYS / nobody EPERM ENOSYS", "EPERM", callEvent("finit_module")},
		{"delete_module", "ENOENT ENOSYS / nobody EPERM ENOSYS", "EPERM", callEvent("delete_module")},
		{"kexec_load", "EINVAL ENOSYS EPERM / nobody EPERM ENOSYS", "EPERM", callEvent("kexec_load")},
		{"swapon", "ENOENT ENOSYS / nobody EPERM ENOSYS", "EPERM", callEvent("swapon")},
		{"syslog", "ok / nobody ok EPERM", "EPERM", callEvent("syslog")},
		{"acct", "ENOENT ENOSYS / nobody EPERM ENOSYS", "EPERM", callEvent("acct")},
		{"quotactl", "ok EINVAL ENOSYS ENODEV / nobody ok EINVAL ENOSYS ENODEV EPERM", "EPERM", callEvent("quotactl")},
		{"reboot", "EINVAL / nobody EPERM", "EPERM", callEvent("reboot")},
		{"settimeofday", "EFAULT / nobody EPERM EFAULT", "EPERM", callEvent("settimeofday")},
		{"iopl", "ok ENOSYS / nobody EPERM ENOSYS", "EPERM", callEvent("iopl")},
	}},
	{prog: "mknod_device", args: "$WS", tries: []try{
		{"character", "ok / nobody EPERM", "EPERM EACCES", noEvent("the capability check refuses first")},
		{"block", "ok / nobody EPERM", "EPERM EACCES", noEvent("the capability check refuses first")},
	}, bpf: map[string]got{
		"character": {"EPERM EACCES", bpfEvent("create").on("$WS/mem")},
		"block":     {"EPERM EACCES", bpfEvent("create").on("$WS/disk")},
	}},
	{prog: "int80", args: "$KEY $NOOP", needs: amd64, tries: []try{
		{"getpid", "ok SIGSEGV", "SIGSYS", callEvent("")}, // SIGSEGV: a kernel without 32-bit calls
		{"open", "ok SIGSEGV", "SIGSYS", callEvent("")},
		{"execve", "ok SIGSEGV", "SIGSYS", callEvent("")},
	}},
	{prog: "x32", args: "$KEY", needs: amd64, tries: []try{
		// No control on most kernels: they are built without x32.
		{"getpid", "ok ENOSYS", "SIGSYS", callEvent("")},
		{"open", "ok ENOSYS", "SIGSYS", callEvent("")},
		{"execveat", "ok ENOSYS EFAULT", "SIGSYS", callEvent("")},
	}},
}
