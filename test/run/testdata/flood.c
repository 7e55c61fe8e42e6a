// Opens a file that is denied N times, as fast as it goes: flood FILE N
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long denied = 0;

	(void)argc;
	for (long n = atol(argv[2]); n > 0; n--)
		denied += open(argv[1], O_RDONLY) < 0 && errno == EACCES;
	printf("%ld\n", denied);
	return 0;
}
