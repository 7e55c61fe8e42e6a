// Tries: to read a file (argument 1) unseen, under a Landlock domain of its own whose denials it keeps out of the kernel's log; first
// one that denies no reads itself, then one that does (argument 2). The kernel logs a denial for the innermost domain that
// denies (landlock_log_denial, security/landlock/audit.c), by that domain's flags.
// Must get: EACCES from both.
// Event: fs read of the first file. That of the second is a stated gap.
#include "attack.h"

static long read_under(uint64_t handled, const char *file)
{
	uint64_t attr[3] = {handled}; // struct landlock_ruleset_attr
	long ruleset = syscall(444 /* landlock_create_ruleset */, attr, sizeof(attr), 0);
	if (ruleset < 0)
		ruleset = syscall(444, attr, sizeof(attr[0]), 0); // an older kernel
	if (ruleset < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		error("no ruleset");
	// LOG_SAME_EXEC_OFF and LOG_SUBDOMAINS_OFF, since Linux 6.15
	if (syscall(446 /* landlock_restrict_self */, ruleset, 1 | 4) < 0 && syscall(446, ruleset, 0) < 0)
		error("landlock_restrict_self");
	return fd_reads(open(file, O_RDONLY));
}

static long other(void) { return read_under(1 << 9 /* MAKE_SOCK */, args[0]); }

static long same(void) { return read_under(1 << 2 /* READ_FILE */, args[1]); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("refuses-no-reads", other);
	attempt("refuses-reads", same);
}
