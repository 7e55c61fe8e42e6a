// Tries: to trace in a circle: processes that stop each other as they end (PTRACE_O_TRACEEXIT) no signal ends. Here none is stopped, so
// that all of them can be ended where the kernel lets them.
// Must get: EPERM, all but the first, which is no circle.
// Event: trace, reason syscall_denied.
#include "attack.h"
#include <sys/ptrace.h>

static int answers[2];
static pid_t a; // traced by b, its child

static void answer(long rc)
{
	int e = rc < 0 ? errno : 0;
	if (write(answers[1], &e, sizeof(e)) != sizeof(e))
		_exit(1);
}

static long receive(void)
{
	if (read(answers[0], &errno, sizeof(errno)) != sizeof(errno))
		error("no answer");
	return errno ? -1 : 0;
}

static pid_t start(void (*f)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		f();
		for (;;)
			pause();
	}
	return pid;
}

static long end(pid_t pid, long rc)
{
	int e = errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	errno = e;
	return rc;
}

// begin makes a child trace its parent, and then call f.
static pid_t begin(void (*f)(void))
{
	if (pipe(answers))
		error("pipe");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); // for Yama
	a = getpid();
	pid_t b = start(f);
	if (receive())
		error("seize a parent");
	return b;
}

static void seize(void) { answer(ptrace(PTRACE_SEIZE, a, 0, 0)); }

static long upward(void) { return end(begin(seize), 0); }

static long circle(void)
{
	pid_t b = begin(seize);
	return end(b, ptrace(PTRACE_SEIZE, b, 0, 0));
}

static void ask(void)
{
	seize();
	answer(ptrace(PTRACE_TRACEME, 0, 0, 0));
}

static long traceme(void)
{
	pid_t b = begin(ask);
	return end(b, receive());
}

// follow has what its parent starts go on, traced like that one.
static void follow(void)
{
	int status;
	answer(ptrace(PTRACE_SEIZE, a, 0, PTRACE_O_TRACEFORK));
	for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;)
		ptrace(PTRACE_CONT, pid, 0, 0);
}

static pid_t tracer;

static void back(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	answer(ptrace(PTRACE_SEIZE, tracer, 0, 0));
	_exit(0); // or its tracer, stopped by a signal, would let no process continue
}

static long born(void)
{
	tracer = begin(follow);
	pid_t c = start(back);
	return end(c, end(tracer, receive()));
}

// at_once has both ask at the same moment, again and again: each asks before the other has been tied.
static long at_once(void)
{
	int *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long rc = -1;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); // for Yama
	a = getpid();
	for (int i = 0; rc && i < 50; i++) {
		both[0] = 0;
		both[1] = -1;
		pid_t b = fork();
		if (b == 0) {
			prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
			__atomic_fetch_add(&both[0], 1, __ATOMIC_SEQ_CST);
			while (__atomic_load_n(&both[0], __ATOMIC_SEQ_CST) < 2)
				;
			long seized = ptrace(PTRACE_SEIZE, a, 0, 0);
			__atomic_store_n(&both[1], seized ? errno : 0, __ATOMIC_SEQ_CST);
			for (;;)
				pause();
		}
		__atomic_fetch_add(&both[0], 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&both[0], __ATOMIC_SEQ_CST) < 2)
			;
		rc = ptrace(PTRACE_SEIZE, b, 0, 0);
		while (__atomic_load_n(&both[1], __ATOMIC_SEQ_CST) < 0)
			usleep(1000);
		if (!rc && both[1]) {
			errno = both[1];
			rc = -1;
		}
		end(b, 0);
	}
	return rc;
}

int main(int argc, char **argv)
{
	attempt("upward", upward);
	attempt("circle", circle);
	attempt("traceme", traceme);
	attempt("born", born);
	attempt("at-once", at_once);
}
