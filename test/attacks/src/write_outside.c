// Tries: to write in a folder outside the workspace (argument 1): a new file, the existing file.txt, at its end.
// Must get: EACCES.
// Event: fs create or update, reason outside_workspace.
#include "attack.h"

static long fresh(void) { return open(path(args[0], "new"), O_WRONLY | O_CREAT | O_EXCL, 0600); }
static long existing(void) { return open(path(args[0], "file.txt"), O_WRONLY); }
static long append(void) { return open(path(args[0], "file.txt"), O_WRONLY | O_APPEND); }
static long folder(void) { return mkdir(path(args[0], "newdir"), 0700); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("create", fresh);
	attempt("open-for-writing", existing);
	attempt("append", append);
	attempt("mkdir", folder);
}
