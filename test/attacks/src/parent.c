// Tries: nothing. It starts another program (its arguments) and waits for it, as toolguard does: for the attacks that
// turn against who started them, when they run without toolguard.
// Must get: left alone.
// Event: none of its own.
#include "attack.h"

int main(int argc, char **argv)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		execv(argv[1], argv + 1);
		error("execv %s", argv[1]);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		error("%s didn't exit", argv[1]);
	return WEXITSTATUS(status);
}
