// Tries: to execute its own copy of a program (argument 1) in the workspace (2), where files may be written but not
// executed.
// Must get: EACCES.
// Event: fs execute of the copy's path.
#include "attack.h"
#include <sys/sendfile.h>

static char *const none[] = {"noop", "copy", NULL};

static long copy(void)
{
	struct stat st;
	int from = open(args[0], O_RDONLY);
	int to = open(path(args[1], "copy"), O_WRONLY | O_CREAT | O_TRUNC, 0700);
	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		error("copy %s", args[0]);
	for (off_t at = 0; at < st.st_size;)
		if (sendfile(to, from, &at, st.st_size - at) <= 0)
			error("copy %s", args[0]);
	close(to);
	return execv(path(args[1], "copy"), none);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("copy", copy);
}
