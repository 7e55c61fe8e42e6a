// Tries: to open a pipe that it has one end of for the other end, through /proc/self/fd: to write what another process reads, which may be
// a shell that executes it; and to read what it may only write.
// Must get: EACCES. The end that it has may be opened again.
// Event: always, open.
#include "attack.h"

static long again(int fd, int flags)
{
	char proc[64];
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return open(proc, flags);
}

static long handed(int end, int flags)
{
	int fds[2];
	if (pipe(fds))
		return -1;
	close(fds[!end]);
	return again(fds[end], flags);
}

static long read_end_for_writing(void) { return handed(0, O_WRONLY | O_NONBLOCK); }
static long read_end_for_both(void) { return handed(0, O_RDWR); }
static long write_end_for_reading(void) { return handed(1, O_RDONLY | O_NONBLOCK); }
static long read_end_again(void) { return handed(0, O_RDONLY | O_NONBLOCK); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("read-end-for-writing", read_end_for_writing);
	attempt("read-end-for-both", read_end_for_both);
	attempt("write-end-for-reading", write_end_for_reading);
	attempt("read-end-again", read_end_again);
}
