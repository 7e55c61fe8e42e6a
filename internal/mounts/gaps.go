package mounts

// StatedGaps are the accesses that no program sees or denies which makes mounts for a session. Gaps that deny too much are last.
var StatedGaps = []string{
	"a process outside the session that moves, removes or replaces a protected or hidden file or folder (as editors and `git config` do) takes the mount on it along: what then has its name isn't covered",
	"a FIFO that is in a read-only folder when the session starts can be written: the kernel's read-only mounts deny that for files and folders alone",
	"file systems that are mounted on the machine while a session runs appear in the session without its mounts; Landlock's grants still apply there",
	"denies too much: files can't be renamed or linked between a folder and a protected file or folder in it (EXDEV), and neither that nor a folder " +
		"above it can be moved or removed (EBUSY)",
	"denies too much: /tmp, /dev/shm and System V memory of the machine aren't visible, nor are processes outside the session",
}
