// Leaves chains of processes behind, each of which forks and ends at once, so that a process that looks for them one by one is always
// too late. Arguments: how many, and a mark to find them by.
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
	time_t end = time(0) + 180;
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		if (fork())
			continue;
		for (int s = 1; s < 32; s++)
			signal(s, SIG_IGN);
		while (time(0) < end) {
			if (fork() > 0)
				_exit(0);
			setsid();
			usleep(1000); // or the machine runs out of process numbers, which other tests need
		}
		_exit(0);
	}
	usleep(300000);
	write(1, "started\n", 8);
	return 0;
}
