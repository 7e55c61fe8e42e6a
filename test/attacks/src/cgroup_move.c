// Tries: to leave what holds the session by another control group: to move itself to the topmost one (argument 1), and to be moved to
// one by a process outside, which does so when the file "pid" appears in the workspace (2), and then makes "moved"; then to read a file (3).
// Must get: EACCES.
// Event: fs update of cgroup.procs, fs read of the file.
#include "attack.h"

static long by_itself(void)
{
	int fd = open(path(args[0], "cgroup.procs"), O_WRONLY);
	return fd < 0 ? -1 : write(fd, "0", 1);
}

static long by_others(void)
{
	int fd = open(path(args[1], "pid"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || dprintf(fd, "%d\n", getpid()) < 0)
		error("pid");
	for (int i = 0; access(path(args[1], "moved"), F_OK) < 0; i++) {
		if (i == 6000)
			error("no process moves it");
		usleep(20 * 1000);
	}
	return fd_reads(open(args[2], O_RDONLY));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("by-itself", by_itself);
	attempt("by-others", by_others);
}
