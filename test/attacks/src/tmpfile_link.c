// Tries: to make a nameless file (O_TMPFILE) in the workspace (argument 1) and give it a name outside (2); to make one
// in a read-only tree (3).
// Must get: EACCES or EXDEV.
// Event: fs create, reason outside_workspace or rule_denies.
#include "attack.h"

static long link_it(void)
{
	char proc[64];
	int fd = open(args[0], O_TMPFILE | O_RDWR, 0600);
	if (fd < 0)
		error("O_TMPFILE in %s", args[0]);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, AT_FDCWD, path(args[1], "linked-tmp"), AT_SYMLINK_FOLLOW);
}

static long in_readonly(void) { return open(args[2], O_TMPFILE | O_RDWR, 0600); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("link-out", link_it);
	attempt("in-readonly", in_readonly);
}
