// Tries: to reach a secret (argument 2) through a symlink made in the workspace (1): to the file, to its folder, and in
// two steps.
// Must get: EACCES from the open; making the link is no crime.
// Event: fs read of the secret's own path, not of the link.
#include "attack.h"
#include <libgen.h>

static long to_file(void)
{
	symlink(args[1], path(args[0], "l1"));
	return fd_reads(open(path(args[0], "l1"), O_RDONLY));
}

static long to_folder(void)
{
	char dir[4200], base[4200];
	snprintf(dir, sizeof(dir), "%s", args[1]);
	snprintf(base, sizeof(base), "%s", args[1]);
	symlink(dirname(dir), path(args[0], "l2"));
	return fd_reads(open(path(path(args[0], "l2"), basename(base)), O_RDONLY));
}

static long twice(void)
{
	symlink(args[1], path(args[0], "l3"));
	symlink("l3", path(args[0], "l4"));
	return fd_reads(open(path(args[0], "l4"), O_RDONLY));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("file", to_file);
	attempt("folder", to_folder);
	attempt("twice", twice);
}
