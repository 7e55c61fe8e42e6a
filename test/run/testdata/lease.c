// Takes a lease on the file (argument 1), with which no other process can open it, and prints the result.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

int main(int argc, char **argv) {
	(void)argc;
	int fd = open(argv[1], O_RDONLY);
	if (fd < 0) {
		perror("open");
		return 1;
	}
	puts(fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? "leased" : "refused");
	return 0;
}
