// Tries: to change what is written about file.txt of a read-only tree (argument 1): its mode, its times, an extended
// attribute.
// Must get: EACCES where the backend sees such calls. Landlock has no hook for them: its stated gap. The attribute seccomp refuses,
// with EOPNOTSUPP.
// Event: none under landlock, where nothing is refused; syscall for the attribute.
#include "attack.h"
#include <sys/xattr.h>

static long mode(void) { return chmod(path(args[0], "file.txt"), 0640); }
static long times(void) { return utimensat(AT_FDCWD, path(args[0], "file.txt"), NULL, 0); }
static long attribute(void) { return setxattr(path(args[0], "file.txt"), "user.toolguard", "x", 1, 0); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("chmod", mode);
	attempt("utimes", times);
	attempt("setxattr", attribute);
}
