// Tries: to reach a process outside the session through objects without a path: System V shared memory, message queues and
// semaphores, POSIX message queues.
// Must get: denied where the backend sees it. Landlock has no hook for them; where seccomp lets them through they are
// a stated gap.
// Event: syscall, reason syscall_denied, where seccomp denies them.
#include "attack.h"
#include <mqueue.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { KEY = 0x7467 };

static long memory(void)
{
	int id = shmget(KEY, 4096, IPC_CREAT | 0600);
	if (id >= 0)
		shmctl(id, IPC_RMID, NULL);
	return id;
}

static long messages(void)
{
	int id = msgget(KEY, IPC_CREAT | 0600);
	if (id >= 0)
		msgctl(id, IPC_RMID, NULL);
	return id;
}

static long semaphores(void)
{
	int id = semget(KEY, 1, IPC_CREAT | 0600);
	if (id >= 0)
		semctl(id, 0, IPC_RMID);
	return id;
}

static long queue(void)
{
	long fd = mq_open("/toolguard-test", O_RDWR | O_CREAT, 0600, NULL);
	if (fd >= 0)
		mq_unlink("/toolguard-test");
	return fd;
}

int main(int argc, char **argv)
{
	attempt("shm", memory);
	attempt("msg", messages);
	attempt("sem", semaphores);
	attempt("mqueue", queue);
}
