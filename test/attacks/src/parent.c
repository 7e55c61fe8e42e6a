// Tries: nothing. It starts another program (its arguments), passes SIGUSR2 on to it and waits for it, as toolguard does: for the
// attacks on their parent, when they run without toolguard.
// Must get: left alone.
// Event: none of its own.
#include "attack.h"

static pid_t pid;

static void pass(int sig) { kill(pid, sig); }

int main(int argc, char **argv)
{
	int status;
	struct sigaction passes = {.sa_handler = pass, .sa_flags = SA_RESTART};
	sigset_t usr2;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sigprocmask(SIG_BLOCK, &usr2, NULL);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_UNBLOCK, &usr2, NULL);
		execv(argv[1], argv + 1);
		error("execv %s", argv[1]);
	}
	sigaction(SIGUSR2, &passes, NULL);
	sigprocmask(SIG_UNBLOCK, &usr2, NULL);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		error("%s didn't exit", argv[1]);
	return WEXITSTATUS(status);
}
