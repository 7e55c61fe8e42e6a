// Makes the file that its argument names setgid without execute for its group, writes to it, and then lets the group
// execute it by an access control list. Prints the mode.
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
	umask(0);
	int f = open(argv[1], O_CREAT | O_EXCL | O_RDWR, 02705);
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
