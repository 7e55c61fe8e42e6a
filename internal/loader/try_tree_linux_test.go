package loader

import (
	"strconv"

	"golang.org/x/sys/unix"
)

var treeTries = []try{
	{"mkdir where all is granted", path("all/new", func(p string) error { return unix.Mkdir(p, 0o755) }), nil, nil},
	{"mkdir where creating is", path("make/new", func(p string) error { return unix.Mkdir(p, 0o755) }), nil, nil},
	{"mkdir where it isn't", path("ro/new", func(p string) error { return unix.Mkdir(p, 0o755) }), eacces, nil},
	{"mkdir where nothing is", path("none/new", func(p string) error { return unix.Mkdir(p, 0o755) }), eacces, nil},
	{"create where all is granted", touch("all/created"), nil, nil},
	{"create where creating is", touch("make/created"), nil, nil},
	{"create where only updating is", touch("change/created"), eacces, nil},
	{"create where reading is", touch("ro/created"), eacces, nil},
	{"create through a symlink", func(p *tryState) error { return touch("all/to-ro/created2")(p) }, eacces, nil},
	{"create a denied name", touch("two/sub/x.key"), eacces, nil},
	{"create next to a denied name", touch("two/sub/x.kez"), nil, nil},
	{"symlink where creating is granted", path("make/symlink", func(p string) error { return unix.Symlink("x", p) }), nil, nil},
	{"symlink where it isn't", path("ro/symlink", func(p string) error { return unix.Symlink("x", p) }), eacces, nil},
	{"fifo where creating is granted", path("make/fifo", func(p string) error { return unix.Mkfifo(p, 0o600) }), nil, nil},
	{"fifo where it isn't", path("ro/fifo", func(p string) error { return unix.Mkfifo(p, 0o600) }), eacces, nil},
	{"socket node where it isn't", path("ro/node", func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) }), eacces, nil},
	{"bind where creating is granted", path("make/bound", bindUnix), nil, nil},
	{"bind where it isn't", path("ro/bound", bindUnix), eacces, nil},
	{"character device", path("all/chr", func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, 0x103) }), eacces, nil},
	{"block device", path("all/blk", func(p string) error { return unix.Mknod(p, unix.S_IFBLK|0o600, 0x700) }), eacces, nil},
	{"whiteout", path("all/whiteout", func(p string) error { return unix.Mknod(p, unix.S_IFCHR, 0) }), eacces, nil},
	{"unnamed file where creating is granted", opening("make", unix.O_TMPFILE|unix.O_RDWR), nil, nil},
	{"unnamed file where it isn't", opening("ro", unix.O_TMPFILE|unix.O_RDWR), eacces, nil},

	{"create a setuid file", creating("all/setuid", unix.O_CREAT|unix.O_WRONLY, 0o4755), eperm, nil},
	{"create a setgid file", creating("all/setgid-new", unix.O_CREAT|unix.O_RDONLY, 0o2700), eperm, nil},
	{"make a setuid node", path("all/node", func(p string) error { return unix.Mknod(p, unix.S_IFREG|0o4755, 0) }), eperm, nil},
	{"make a setuid node without a type", path("all/node2", func(p string) error { return unix.Mknod(p, 0o4755, 0) }), eperm, nil},
	{"unnamed setuid file", creating("all", unix.O_TMPFILE|unix.O_RDWR, 0o4755), eperm, nil},
	{"create a sticky file", creating("all/sticky", unix.O_CREAT|unix.O_WRONLY, 0o1755), nil, nil},
	{"open what is there, as if to create it setuid", creating("all/file", unix.O_CREAT|unix.O_RDONLY, 0o4755), nil, nil},
	{"mkdir with a setgid mode", path("all/setgid-mode", func(p string) error { return unix.Mkdir(p, 0o2755) }), nil, nil},
	{"create in a setgid folder", touch("all/setgid-dir/file"), nil, nil},
	{"mkdir in a setgid folder, which makes it one", path("all/setgid-dir/new", func(p string) error {
		var s unix.Stat_t
		if err := unix.Mkdir(p, 0o755); err != nil {
			return err
		}
		if err := unix.Stat(p, &s); err != nil || s.Mode&unix.S_ISGID != 0 {
			return err
		}
		return unix.ENODATA
	}), nil, nil},

	{"unlink where all is granted", path("all/unlink", unix.Unlink), nil, nil},
	{"unlink where updating is", path("change/unlink", unix.Unlink), eacces, nil},
	{"unlink where reading is", path("ro/unlink", unix.Unlink), eacces, nil},
	{"unlink where deleting is", path("del/unlink", unix.Unlink), nil, nil},
	{"rmdir where all is granted", path("all/rmdir", unix.Rmdir), nil, nil},
	{"rmdir where reading is", path("ro/rmdir", unix.Rmdir), eacces, nil},

	{"rename within what is granted", rename("all/mv1", "all/mv1-new", 0), nil, nil},
	{"rename to where nothing may be created", rename("all/mv2", "ro/mv2", 0), eacces, nil},
	{"rename from where nothing may be deleted", rename("ro/mv3", "all/mv3", 0), eacces, nil},
	{"rename over what may be updated", rename("all/mv4", "change/over", 0), nil, nil},
	{"rename over what may only be created", rename("all/mv5", "make/over", 0), eacces, nil},
	{"rename to a new name where only updating is granted", rename("all/mv6", "change/mv6", 0), eacces, nil},
	{"rename to where it could do more", rename("del/mv7", "all/mv7", 0), exdev, nil},
	{"rename to where it could do less", rename("all/mv8", "less/mv8", 0), nil, nil},
	{"rename to a denied name", rename("two/mv9", "two/x.key", 0), eacces, nil},
	{"rename to itself", rename("del2/self", "del2/self", 0), nil, nil},
	{"rename a folder", rename("all/dir1", "all/dir1-new", 0), nil, nil},
	{"rename a folder with a rule beneath", rename("all/in", "all/in2", 0), exdev, nil},
	{"rename the parent of a folder with a rule beneath", rename("all/over-in", "all/over-in2", 0), exdev, nil},
	{"rename a folder onto the parent of a rule", rename("all/dir2", "all/absent-rule", 0), exdev, nil},
	{"rename a folder that is part of a pattern", rename("all/sub/.git", "all/sub/git", 0), exdev, nil},
	{"rename a folder to be part of a pattern", rename("all/dir3", "all/sub2/.git", 0), exdev, nil},
	{"rename a folder around one that is part of a pattern", rename("all/sub3", "all/sub3-new", 0), nil, nil},
	{"rename a folder out of a pattern's base", rename("two/dir4", "other/dir4", 0), exdev, nil},
	{"rename a folder into a pattern's base", rename("other/dir5", "two/dir5", 0), exdev, nil},
	{"rename a folder to where it could do more", rename("del/dir6", "all/dir6", 0), exdev, nil},
	{"rename a folder to where less may be created", rename("all/dir7", "less/dir7", 0), exdev, nil},
	{"rename a pattern's base", rename("base/two", "base/three", 0), exdev, nil},
	{"exchange within what is granted", rename("all/ex1", "all/ex2", unix.RENAME_EXCHANGE), nil, nil},
	{"exchange with what may only be read", rename("all/ex3", "ro/ex3", unix.RENAME_EXCHANGE), eacces, nil},
	{"exchange with what could do less", rename("all/ex4", "swap/ex4", unix.RENAME_EXCHANGE), exdev, nil},
	{"exchange with what could do more", rename("swap/ex5", "all/ex5", unix.RENAME_EXCHANGE), exdev, nil},
	{"exchange a file and a folder with a rule beneath", rename("all/ex6", "all/in3", unix.RENAME_EXCHANGE), exdev, nil},
	{"rename that leaves a whiteout", rename("all/whiteout-mv", "all/whiteout-mv-new", unix.RENAME_WHITEOUT), eacces, nil},
	{"no replace", rename("all/nr", "all/nr-new", unix.RENAME_NOREPLACE), nil, nil},

	{"link within what is granted", hardlink("all/ln1", "all/ln1-new"), nil, nil},
	{"link to where nothing may be created", hardlink("all/ln2", "ro/ln2"), eacces, nil},
	{"link of what may not be read", hardlink("none/ln3", "all/ln3"), eacces, nil},
	{"link to where it could do more", hardlink("ro/ln4", "all/ln4"), exdev, nil},
	{"link to where it could do less", hardlink("all/ln5", "make/ln5"), nil, nil},
	{"link of an open file to where it could do more", linkFD("ro/ln6", unix.O_RDONLY, "all/ln6"), exdev, nil},
	{"link of an unnamed file", linkFD("all", unix.O_TMPFILE|unix.O_RDWR, "all/ln7"), nil, nil},
	{"link of an unnamed file to a denied place", linkFD("all", unix.O_TMPFILE|unix.O_RDWR, "ro/ln8"), eacces, nil},
}

// linkFD links an open file to a name.
func linkFD(from string, flags int, to string) func(p *tryState) error {
	return func(p *tryState) error {
		return with(from, flags, func(fd int) error {
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, rel(p, to), unix.AT_SYMLINK_FOLLOW)
		})(p)
	}
}

func bindUnix(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
}
