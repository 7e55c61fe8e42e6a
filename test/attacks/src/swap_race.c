// Tries: to have one path checked and another opened: a thread swaps a name in the workspace (argument 1) between a
// harmless file and a link to a secret (2) as fast as it can, while another opens it, until both have done so 5,000 times, and
// the opening one was denied the link a hundred times: where both have one processor, neither sees much of the other.
// Must get: never a byte of the secret.
// Event: fs read of the secret's own path.
#include "attack.h"
#include <pthread.h>
#include <stdatomic.h>

static _Atomic int done, swaps;

static void *swap(void *unused)
{
	while (!done)
		swaps += renameat2(AT_FDCWD, "swap-a", AT_FDCWD, "swap-b", RENAME_EXCHANGE) == 0;
	return NULL;
}

static long race(void)
{
	pthread_t t;
	char text[16];
	long got = -1;
	if (chdir(args[0]) < 0)
		error("chdir %s", args[0]);
	int fd = open("swap-a", O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, "harmless", 8) != 8)
		error("write swap-a");
	if ((symlink(args[1], "swap-b") < 0 && errno != EEXIST) || pthread_create(&t, NULL, swap, NULL) != 0)
		error("symlink swap-b");
	for (int i = 0, refused = 0; (i < 5000 || swaps < 5000 || refused < 100) && got < 0; i++) {
		fd = open("swap-a", O_RDONLY);
		if (fd < 0) {
			refused++;
			continue;
		}
		ssize_t n = read(fd, text, sizeof(text));
		if (n > 0 && memcmp(text, "harmless", n < 8 ? n : 8) != 0)
			got = 0;
		close(fd);
	}
	done = 1;
	pthread_join(t, NULL);
	errno = EACCES;
	return got;
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("swap", race);
}
