// Tries: renameat2(RENAME_EXCHANGE) of data.txt in the workspace (argument 1) with file.txt of a read-only tree (2);
// RENAME_WHITEOUT of a file there.
// Must get: EACCES or EXDEV, and both files keep their bytes.
// Event: fs, reason rule_denies.
#include "attack.h"

static long exchange(void)
{
	return renameat2(AT_FDCWD, path(args[0], "data.txt"), AT_FDCWD, path(args[1], "file.txt"), RENAME_EXCHANGE);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("exchange", exchange);
}
