// Tries: to empty file.txt of a tree that may only be read (argument 1) by opening it for reading with O_TRUNC, and by
// truncate(2), which opens nothing.
// Must get: EACCES, and the file keeps its bytes.
// Event: fs update, reason rule_denies.
#include "attack.h"

static long by_open(void) { return open(path(args[0], "file.txt"), O_RDONLY | O_TRUNC); }
static long by_truncate(void) { return truncate(path(args[0], "file.txt"), 0); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("open-trunc", by_open);
	attempt("truncate", by_truncate);
}
