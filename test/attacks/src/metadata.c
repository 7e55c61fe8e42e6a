// Tries: to change the metadata of file.txt in a read-only tree (argument 1): its mode, owner and times, by name and by a
// descriptor that is open for reading, an extended attribute, and an ACL.
// Must get: EACCES where the backend sees such calls. Landlock has no hook for them: its stated gap. Seccomp denies setting an
// attribute, with EOPNOTSUPP.
// Event: fs update of the file; none under landlock, where only the attribute is denied, with an event of the call.
#include "attack.h"
#include <sys/xattr.h>

static long mode(void) { return chmod(path(args[0], "file.txt"), 0640); }
static long times(void) { return utimensat(AT_FDCWD, path(args[0], "file.txt"), NULL, 0); }
static long attribute(void) { return setxattr(path(args[0], "file.txt"), "user.toolguard", "x", 1, 0); }

// That one more user may write it, in the form of linux/posix_acl_xattr.h.
static long acl(void)
{
	const struct { uint32_t version; struct { uint16_t tag, perm; uint32_t id; } entries[5]; } list = {
		2, {{ 1, 6, -1 }, { 2, 6, 1 }, { 4, 4, -1 }, { 0x10, 6, -1 }, { 0x20, 4, -1 }},
	};
	return setxattr(path(args[0], "file.txt"), "system.posix_acl_access", &list, sizeof(list), 0);
}

static int readable(void) { return open(path(args[0], "file.txt"), O_RDONLY); }
static long owner(void) { return chown(path(args[0], "file.txt"), getuid(), getgid()); }
static long mode_of_fd(void) { return fchmod(readable(), 0640); }
static long times_of_fd(void) { return futimens(readable(), NULL); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("chmod", mode);
	attempt("utimes", times);
	attempt("chown", owner);
	attempt("fchmod", mode_of_fd);
	attempt("futimens", times_of_fd);
	attempt("setxattr", attribute);
	attempt("acl", acl);
}
