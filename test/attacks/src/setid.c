// Tries: to make a file that other users execute with the session's user or group, by the mode that it's created with: by its name, without
// one (O_TMPFILE), as a node, in the workspace (argument 1). What is there, and a folder, may be asked for so.
// Must get: EPERM where the backend sees such calls. Landlock has no hook for them: its stated gap.
// Event: always create, or open, of the file; none under landlock, where nothing is denied.
#include "attack.h"

static long setuid_file(void) { return open(path(args[0], "setuid"), O_CREAT | O_WRONLY, 04755); }
static long setgid_file(void) { return open(path(args[0], "setgid"), O_CREAT | O_WRONLY, 02755); }
static long unnamed(void) { return open(args[0], O_TMPFILE | O_RDWR, 06755); }
static long node(void) { return mknod(path(args[0], "node"), S_IFREG | 04755, 0); }
static long there(void) { return open(path(args[0], "data.txt"), O_CREAT | O_RDONLY, 04755); }
static long folder(void) { return mkdir(path(args[0], "folder"), 02755); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("setuid", setuid_file);
	attempt("setgid", setgid_file);
	attempt("unnamed", unnamed);
	attempt("node", node);
	attempt("there", there);
	attempt("folder", folder);
}
