// Tries: to use or regain what root may do: looks for a capability in its effective, permitted, bounding and ambient
// sets, for no_new_privs being off, and changes the owner of a file in the workspace (argument 1).
// Must get: nothing.
// Event: none: they were taken away before the start.
#include "attack.h"
#include <linux/capability.h>

static long holds(int permitted)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {0};
	if (syscall(SYS_capget, &h, d) < 0)
		error("capget");
	errno = EPERM;
	if (permitted)
		return d[0].permitted || d[1].permitted ? 0 : -1;
	return d[0].effective || d[1].effective ? 0 : -1;
}

static long effective(void) { return holds(0); }
static long permitted(void) { return holds(1); }

static long bounding(void)
{
	for (int c = 0; c < 64; c++)
		if (prctl(PR_CAPBSET_READ, c) == 1)
			return 0;
	errno = EPERM;
	return -1;
}

static long may_gain(void)
{
	errno = EPERM;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? 0 : -1;
}

static long give_away(void) { return chown(path(args[0], "data.txt"), 12345, 12345); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("effective", effective);
	attempt("permitted", permitted);
	attempt("bounding", bounding);
	attempt("new-privileges", may_gain);
	attempt("chown", give_away);
}
