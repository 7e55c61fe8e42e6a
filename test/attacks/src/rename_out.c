// Tries: to move data.txt of the workspace (argument 1) to a folder outside (2), and the other way round.
// Must get: EACCES or EXDEV, and both files stay.
// Event: fs, reason outside_workspace.
#include "attack.h"

static long out(void) { return rename(path(args[0], "data.txt"), path(args[1], "data.txt")); }
static long in(void) { return rename(path(args[1], "file.txt"), path(args[0], "stolen.txt")); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("out", out);
	attempt("in", in);
}
