// Uses up all processes that there may be, up to 500, and ends by SIGKILL alone, or after a minute. Its argument is a mark to find them by.
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(void) {
	int *count = mmap(0, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	time_t end = time(0) + 60;
	if (count == MAP_FAILED)
		return 1;
	signal(SIGTERM, SIG_IGN);
	while (time(0) < end)
		if (__sync_add_and_fetch(count, 1) > 500 || fork() < 0) {
			__sync_sub_and_fetch(count, 1);
			usleep(20000); // or the machine does nothing else
		}
	return 0;
}
