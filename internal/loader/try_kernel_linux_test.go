package loader

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var kernelTries = []try{
	{"mount", path("all/mnt", func(p string) error { return unix.Mount("none", p, "tmpfs", 0, "") }), eperm, nil},
	{"bind", path("all/mnt", func(p string) error { return unix.Mount(filepath.Dir(p), p, "", unix.MS_BIND, "") }), eperm, nil},
	{"unmount", path("mounted", func(p string) error { return unix.Unmount(p, unix.MNT_DETACH) }), eperm, nil},
	{"attach what open_tree copied", func(p *tryState) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, p.Dir, unix.OPEN_TREE_CLONE)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(fd)
		return unix.MoveMount(fd, "", unix.AT_FDCWD, rel(p, "all/mnt"), unix.MOVE_MOUNT_F_EMPTY_PATH)
	}, eperm, nil},
	{"open beneath what open_tree copied", func(p *tryState) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, p.Dir, unix.OPEN_TREE_CLONE)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(fd)
		return closing(unix.Openat(fd, "all/file", unix.O_RDONLY, 0))
	}, eacces, nil},
	{"change a file system's options", func(p *tryState) error {
		fd, err := unix.Fspick(unix.AT_FDCWD, rel(p, "mounted2"), 0)
		if err != nil {
			return fmt.Errorf("fspick: %w", err)
		}
		defer unix.Close(fd)
		if err := unix.FsconfigSetFlag(fd, "ro"); err != nil {
			return err
		}
		return unix.FsconfigReconfigure(fd)
	}, eperm, nil},
	{"pivot_root", func(p *tryState) error { return unix.PivotRoot("/", "/") }, eperm, unix.EINVAL},
	{"chroot", func(p *tryState) error { return inChild(p, "chroot") }, eperm, nil},
	{"user namespace", func(p *tryState) error { return inChild(p, "userns") }, eperm, nil},
	{"bpf", func(p *tryState) error {
		attr := [5]uint32{2, 4, 4, 1, 0}
		fd, _, e := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if e == 0 {
			unix.Close(int(fd))
		}
		return errno(e)
	}, eperm, nil},
	{"perf_event_open", func(p *tryState) error {
		attr := unix.PerfEventAttr{Type: 1 << 20, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))} // of no kind that there is
		return closing(unix.PerfEventOpen(&attr, 0, -1, -1, 0))
	}, eperm, unix.ENOENT},
	{"init_module", func(p *tryState) error { return unix.InitModule(make([]byte, 100), "") }, eperm, unix.ENOEXEC},
	{"finit_module", func(p *tryState) error {
		return with("ro/file", unix.O_RDONLY, func(fd int) error { return unix.FinitModule(fd, "", 0) })(p)
	}, eperm, unix.ENOEXEC},
	{"kexec_load", func(p *tryState) error {
		_, _, e := unix.Syscall6(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0, 0, 0)
		return errno(e)
	}, eperm, nil},
	{"io_uring with a thread", func(p *tryState) error {
		params := [30]uint32{2: 2} // IORING_SETUP_SQPOLL
		fd, _, e := unix.Syscall(425, 1, uintptr(unsafe.Pointer(&params)), 0)
		if e == 0 {
			unix.Close(int(fd))
		}
		return errno(e)
	}, eperm, nil},
}

func inChild(p *tryState, what string) error {
	attr := &syscall.SysProcAttr{}
	switch what {
	case "chroot":
		attr.Chroot = "/"
	case "userns":
		attr.Cloneflags = syscall.CLONE_NEWUSER
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = attr
	err := cmd.Run()
	return err
}
