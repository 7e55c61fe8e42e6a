// Tries: where the policy allows io_uring, to do operations by it that the system calls are denied: to open a key (argument 1), by the thread that
// asks and by a worker of the kernel's; to change what is outside (argument 2); to take what is there into the workspace (argument 3) and
// the other way; to make an internet socket; to connect to a socket outside (argument 4).
// Must get: EACCES, EPERM or EXDEV.
// Event: fs, reason outside_workspace; of sockets always, reason syscall_denied.
#include "attack.h"
#include <linux/io_uring.h>
#include <netinet/in.h>

// by_ring does one operation by a ring of its own, and returns its result.
static long by_ring(struct io_uring_sqe asked)
{
	struct io_uring_params p = {0};
	int ring = syscall(SYS_io_uring_setup, 1, &p);
	if (ring < 0)
		return -1;
	char *sq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *entry = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || entry == MAP_FAILED)
		error("map the rings");
	*entry = asked;
	*(uint32_t *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		error("io_uring_enter");
	struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	if (done->res < 0) {
		errno = -done->res;
		return -1;
	}
	return done->res;
}

// of is an operation on names: a first one, and for some a second.
static struct io_uring_sqe of(int op, const char *first, const char *second)
{
	return (struct io_uring_sqe){.opcode = op, .fd = AT_FDCWD, .addr = (uintptr_t)first, .len = AT_FDCWD, .addr2 = (uintptr_t)second};
}

static long open_with(const char *name, int how, int flags)
{
	struct io_uring_sqe e = of(IORING_OP_OPENAT, name, NULL);
	e.len = 0600;
	e.open_flags = how;
	e.flags = flags;
	return by_ring(e);
}

static long key(void) { return open_with(args[0], O_RDONLY, 0); }
static long key_by_worker(void) { return open_with(args[0], O_RDONLY, IOSQE_ASYNC); }
static long create(void) { return open_with(path(args[1], "new"), O_WRONLY | O_CREAT, 0); }
static long create_by_worker(void) { return open_with(path(args[1], "new2"), O_WRONLY | O_CREAT, IOSQE_ASYNC); }

static long folder(void)
{
	struct io_uring_sqe e = of(IORING_OP_MKDIRAT, path(args[1], "folder"), NULL);
	e.len = 0700;
	return by_ring(e);
}

static long symlink_there(void)
{
	struct io_uring_sqe e = of(IORING_OP_SYMLINKAT, "anywhere", path(args[1], "symlink"));
	e.len = 0;
	return by_ring(e);
}

static long link_in(void) { return by_ring(of(IORING_OP_LINKAT, path(args[1], "file.txt"), path(args[2], "linked"))); }
static long move_out(void) { return by_ring(of(IORING_OP_RENAMEAT, path(args[2], "data.txt"), path(args[1], "moved"))); }

static long delete(void)
{
	struct io_uring_sqe e = of(IORING_OP_UNLINKAT, path(args[1], "file.txt"), NULL);
	e.len = 0;
	return by_ring(e);
}

static long make(int family) { return by_ring((struct io_uring_sqe){.opcode = IORING_OP_SOCKET, .fd = family, .off = SOCK_STREAM}); }
static long inet(void) { return make(AF_INET); }

static long connect_there(int flags)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = make(AF_UNIX);
	if (fd < 0)
		return -1;
	strncpy(a.sun_path, args[3], sizeof(a.sun_path) - 1);
	return by_ring((struct io_uring_sqe){.opcode = IORING_OP_CONNECT, .flags = flags, .fd = fd, .addr = (uintptr_t)&a, .off = sizeof(a)});
}

static long connect_out(void) { return connect_there(0); }
static long connect_by_worker(void) { return connect_there(IOSQE_ASYNC); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("open", key);
	attempt("open-by-worker", key_by_worker);
	attempt("create", create);
	attempt("create-by-worker", create_by_worker);
	attempt("mkdir", folder);
	attempt("symlink", symlink_there);
	attempt("link-in", link_in);
	attempt("move-out", move_out);
	attempt("delete", delete);
	attempt("inet", inet);
	attempt("connect", connect_out);
	attempt("connect-by-worker", connect_by_worker);
}
