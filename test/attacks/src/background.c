// Tries: to continue after the session's end: a grandchild in a session and process group of its own, ignoring SIGTERM,
// SIGHUP and SIGINT, whose parents have exited. Its pid is written to the file named by argument 1.
// Must get: ended with the session.
// Event: session_end counts it among the orphans.
#include "attack.h"

int main(int argc, char **argv)
{
	char byte;
	int ready[2];
	if (pipe(ready) < 0)
		error("pipe");
	if (fork() == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		setpgid(0, 0);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		signal(SIGINT, SIG_IGN);
		int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dprintf(fd, "%d\n", getpid());
		close(fd);
		for (int i = 0; i < 3; i++)
			dup2(open("/dev/null", O_RDWR), i);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		close(ready[1]);
		sleep(60);
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		error("the grandchild didn't start");
	result("started", 0);
}
