// Tries: to lose a matcher in the depth: makes a folder more than 4,096 bytes and 128 components deep in the workspace
// (argument 1), one step at a time, and from its bottom reads a secret (2) by "..", and a file at the bottom.
// Must get: EACCES for the secret. The file at the bottom is the workspace's own: it may be read where the backend can
// follow, and is denied with path_unresolved where it can't.
// Event: fs read of the secret's own path.
#include "attack.h"

static void descend(void)
{
	char name[64];
	memset(name, 'd', 40);
	name[40] = 0;
	if (chdir(args[0]) < 0)
		error("chdir %s", args[0]);
	for (int i = 0; i < 150; i++)
		if (mkdir(name, 0700) < 0 && errno == EACCES)
			return; // as deep as the backend can follow
		else if (chdir(name) < 0)
			error("level %d", i);
}

static long secret(void)
{
	static char up[4096];
	descend();
	for (int i = 0; i < 300; i++)
		strcat(up, "../");
	strcat(up, args[1]);
	return fd_reads(open(up, O_RDONLY));
}

static long bottom(void)
{
	descend();
	return open("file", O_RDWR | O_CREAT, 0600);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("secret", secret);
	attempt("bottom", bottom);
}
