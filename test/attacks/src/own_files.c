// Tries: to change the policy it runs under (argument 1) and the file its events go to (2): write, remove, rename,
// truncate.
// Must get: EACCES.
// Event: fs, reason protected or outside_workspace.
#include "attack.h"

static long policy(void) { return open(args[0], O_WRONLY | O_APPEND); }
static long policy_rename(void)
{
	char aside[4300];
	snprintf(aside, sizeof(aside), "%s.aside", args[0]);
	if (rename(args[0], aside) < 0)
		return -1;
	return rename(aside, args[0]);
}
static long events(void) { return open(args[1], O_WRONLY | O_APPEND); }
static long events_truncate(void) { return truncate(args[1], 0); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("policy-write", policy);
	attempt("policy-rename", policy_rename);
	attempt("events-write", events);
	attempt("events-truncate", events_truncate);
}
