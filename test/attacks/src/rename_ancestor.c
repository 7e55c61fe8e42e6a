// Tries: to rename the folder that contains a read-only tree (argument 1: the tree), or the tree itself into the
// workspace (2), so that its files get a path with more rights.
// Must get: EACCES or EXDEV, and the tree stays where it is.
// Event: fs, reason outside_workspace or rule_denies.
#include "attack.h"
#include <libgen.h>

static long tree(void) { return rename(args[0], path(args[1], "moved")); }

static long inner(void) { return rename(path(args[0], "dir"), path(args[1], "moved2")); }

static long ancestor(void)
{
	char above[4200], target[4300];
	snprintf(above, sizeof(above), "%s", args[0]);
	dirname(above); // in place
	snprintf(target, sizeof(target), "%s.moved", above);
	if (rename(above, target) < 0)
		return -1;
	return rename(target, above); // back, for the control
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("ancestor", ancestor);
	attempt("inner", inner);
	attempt("tree", tree);
}
