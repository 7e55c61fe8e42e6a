// Tries: the system calls that widen the kernel's surface and that no ordinary program needs: bpf, perf_event_open,
// userfaultfd, the key rings, handles, modules, kexec, swap, the kernel's log, accounting, quotas, I/O ports.
// Arguments are such that nothing happens even where the call is allowed. Argument 1 is a file.
// Must get: EPERM or ENOSYS, before the kernel looks at the arguments.
// Event: syscall, reason syscall_denied.
#include "attack.h"
#include <linux/bpf.h>
#include <linux/perf_event.h>

static long bpf(void)
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	return syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a));
}

static long perf(void)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(a), .config = PERF_COUNT_SW_DUMMY};
	return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static long again(void) { return syscall(SYS_remap_file_pages, 0, 0, 0, 0, 0); }

static long faults(void) { return syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */); }
static long add_key(void) { return syscall(SYS_add_key, "user", "toolguard-test", "x", 1, -1 /* thread keyring */); }
static long request_key(void) { return syscall(SYS_request_key, "user", "toolguard-none", NULL, 0); }
static long keyctl(void) { return syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3 /* session */, 1); }

static long by_handle(void)
{
	struct {
		struct file_handle h;
		char bytes[128];
	} b = {.h.handle_bytes = 128};
	int mount_id, dir = open(".", O_RDONLY | O_DIRECTORY);
	if (name_to_handle_at(AT_FDCWD, args[0], &b.h, &mount_id, 0) < 0)
		return -1;
	return open_by_handle_at(dir < 0 ? AT_FDCWD : dir, &b.h, O_RDONLY);
}

static long module(void) { return syscall(SYS_init_module, NULL, 0, ""); }
static long module_file(void) { return syscall(SYS_finit_module, -1, "", 0); }
static long module_out(void) { return syscall(SYS_delete_module, "toolguard_no_such_module", O_NONBLOCK); }
static long kexec(void) { return syscall(SYS_kexec_load, 0, 17, NULL, 1UL << 40); }
static long swap(void) { return syscall(SYS_swapon, "/toolguard-no-such-file", 0); }
static long log_read(void) { return syscall(SYS_syslog, 10 /* size of the buffer */, NULL, 0); }
static long accounting(void) { return syscall(SYS_acct, "/toolguard-no-such-file"); }
static long quota(void) { return syscall(SYS_quotactl, 0x800001 << 8, NULL, 0, NULL); }
static long restart(void) { return syscall(SYS_reboot, 0, 0, 0, NULL); }
static long clock_set(void) { return syscall(SYS_settimeofday, NULL, (void *)1); }
#ifdef SYS_iopl
static long ports(void) { return syscall(SYS_iopl, 3); }
#endif

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("bpf", bpf);
	attempt("perf_event_open", perf);
	attempt("userfaultfd", faults);
	attempt("remap_file_pages", again);
	attempt("add_key", add_key);
	attempt("request_key", request_key);
	attempt("keyctl", keyctl);
	attempt("open_by_handle_at", by_handle);
	attempt("init_module", module);
	attempt("finit_module", module_file);
	attempt("delete_module", module_out);
	attempt("kexec_load", kexec);
	attempt("swapon", swap);
	attempt("syslog", log_read);
	attempt("acct", accounting);
	attempt("quotactl", quota);
	attempt("reboot", restart);
	attempt("settimeofday", clock_set);
#ifdef SYS_iopl
	attempt("iopl", ports);
#endif
}
