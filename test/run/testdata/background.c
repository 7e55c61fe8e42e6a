// Lets another process group have the terminal, then reads it or sets its attributes (argument 1) from the group that had it.
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct termios t;
	char c;
	if (fork() == 0) {
		signal(SIGTTOU, SIG_IGN);
		setpgid(0, 0);
		tcsetpgrp(0, getpid());
		sleep(20);
		_exit(0);
	}
	while (tcgetpgrp(0) == getpgrp())
		usleep(1000);
	if (fork() != 0) {
		sleep(20); // stopped with the group, or the session's first process going on
		return 0;
	}
	if (strcmp(argv[1], "read") == 0)
		return read(0, &c, 1) != 1;
	return tcgetattr(0, &t) < 0 || tcsetattr(0, TCSANOW, &t) < 0;
}
