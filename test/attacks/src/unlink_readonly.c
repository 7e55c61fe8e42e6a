// Tries: to remove a file and a folder from a tree that may only be read (argument 1).
// Must get: EACCES.
// Event: fs delete, reason rule_denies.
#include "attack.h"

static long file(void) { return unlink(path(args[0], "file.txt")); }
static long folder(void) { return rmdir(path(args[0], "dir")); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("unlink", file);
	attempt("rmdir", folder);
}
