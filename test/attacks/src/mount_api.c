// Tries: to change what is mounted on the workspace (argument 1) with the calls that replaced mount(2). Undoes it.
// Must get: EPERM or ENOSYS.
// Event: syscall fsopen, open_tree, move_mount, mount_setattr, fspick, reason syscall_denied.
#include "attack.h"

static int tree(void) { return syscall(SYS_open_tree, AT_FDCWD, args[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC); }

static long fresh(void) { return syscall(SYS_fsopen, "tmpfs", 0); }
static long pick(void) { return syscall(SYS_fspick, AT_FDCWD, "/", 0); }
static long clone_tree(void) { return tree(); }

static long move(void)
{
	// Without a tree the kernel's error would be EBADF; a denial comes first.
	int fd = tree();
	long rc = syscall(SYS_move_mount, fd, "", AT_FDCWD, args[0], MOVE_MOUNT_F_EMPTY_PATH);
	if (rc == 0)
		umount2(args[0], MNT_DETACH);
	return rc;
}

static long attributes(void)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_RDONLY};
	return syscall(SYS_mount_setattr, tree(), "", AT_EMPTY_PATH, &a, sizeof(a));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("fsopen", fresh);
	attempt("fspick", pick);
	attempt("open_tree", clone_tree);
	attempt("move_mount", move);
	attempt("mount_setattr", attributes);
}
