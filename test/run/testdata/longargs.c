// Sets its command line to a gigabyte (PR_SET_MM_MAP needs no capability), and makes a child cause a denial, so that toolguard reads the
// command lines of the child's ancestors. Argument: the denied file.
#include <fcntl.h>
#include <linux/prctl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
	unsigned long size = 1UL << 30;
	char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct prctl_mm_map m;
	if (p == MAP_FAILED || argc < 2)
		return 1;
	memset(&m, 0, sizeof m);
	m.start_code = (unsigned long)&main & ~4095UL;
	m.end_code = m.start_code + 16;
	m.start_data = m.start_code;
	m.end_data = m.start_code + 16;
	m.start_brk = m.brk = (unsigned long)sbrk(0);
	m.start_stack = (unsigned long)&m;
	m.arg_start = (unsigned long)p;
	m.arg_end = m.env_start = (unsigned long)p + size - 4096;
	m.env_end = m.env_start + 2048;
	m.exe_fd = -1;
	p[0] = 'x';
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0))
		return 2;
	if (fork() == 0) {
		usleep(100000);
		open(argv[1], O_RDONLY);
		usleep(100000);
		_exit(0);
	}
	wait(0);
	return 0;
}
