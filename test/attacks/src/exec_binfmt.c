// Tries: to execute a program that may be read but not executed as the interpreter of a file that may be executed (in the
// folder of argument 1), which is registered with binfmt_misc: looked up when it's needed, and opened when it was registered.
// Must get: EACCES; Landlock isn't asked about an interpreter that was opened before.
// Event: fs execute of the interpreter's own path.
#include "attack.h"

static const char *name;

static long by_name(void)
{
	char *const argv[] = {(char *)name, NULL}, *const env[] = {NULL};
	return chdir(args[0]) ? -1 : execve(name, argv, env);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt(name = "registered", by_name);
	attempt(name = "registered-open", by_name);
}
