// Writes to the file that its argument names, which is setgid without execute for its group, and then lets the group execute it by
// an access control list. Prints the mode.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	// posix_acl_xattr_header and _entry: owner rwx, group r-x, others r-x.
	struct {
		uint32_t version;
		struct { uint16_t tag, perm; uint32_t id; } entries[3];
	} list = {2, {{1, 7, -1}, {4, 5, -1}, {32, 5, -1}}};
	struct stat s;
	int f = open(argv[1], O_RDWR);
	if (f < 0 || write(f, "#!", 2) != 2)
		return 1;
	if (fsetxattr(f, "system.posix_acl_access", &list, sizeof(list), 0) < 0) {
		if (errno != EOPNOTSUPP && errno != EPERM)
			return 2;
		fprintf(stderr, errno == EPERM ? "refused\n" : "no lists\n");
	}
	if (fstat(f, &s) < 0)
		return 3;
	printf("%o\n", s.st_mode & 07777);
}
