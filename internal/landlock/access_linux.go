package landlock

import (
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
)

// newestABI is the newest Landlock ABI that this package uses.
const newestABI = 11

// handledFS returns the kinds of file access that Landlock can deny under an ABI.
func handledFS(abi int) uint64 {
	h := uint64(ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSReadDir |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeChar | ll.AccessFSMakeDir | ll.AccessFSMakeReg |
		ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym) // ABI 1, Linux 5.13
	if abi >= 2 {
		h |= ll.AccessFSRefer // 5.19
	}
	if abi >= 3 {
		h |= ll.AccessFSTruncate // 6.2
	}
	if abi >= 5 {
		h |= ll.AccessFSIoctlDev // 6.10
	}
	if abi >= 9 {
		h |= ll.AccessFSResolveUnix // 7.1
	}
	return h
}

// handledNet returns the kinds of network access that Landlock can deny under an ABI.
func handledNet(abi int) (h uint64) {
	if abi >= 4 {
		h |= ll.AccessNetBindTCP | ll.AccessNetConnectTCP // Linux 6.7
	}
	if abi >= 10 {
		h |= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP // 7.2
	}
	return h
}

// fileRights are the kinds of access that can be granted on a file; the kernel rejects the others there (ACCESS_FILE,
// security/landlock/fs.c).
const fileRights = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate |
	ll.AccessFSIoctlDev | ll.AccessFSResolveUnix

// moveCaps are the capabilities that allow to rename and link between folders.
const moveCaps = policy.Create | policy.Delete

// rights returns the access rights for capabilities. None of them includes device nodes, which may never be created. REFER allows to move a
// file between two folders that both have it; the kernel itself denies, with EXDEV, a move by which the file would gain rights
// (current_check_refer_path). It is granted only with create and delete together: for a file the kernel compares only rights on files, so a
// link could be made in a folder where it may be deleted, while the original may not.
func rights(caps policy.Caps) uint64 {
	var a uint64
	if caps&policy.Read != 0 {
		a |= ll.AccessFSReadFile | ll.AccessFSReadDir
	}
	if caps&policy.Create != 0 {
		a |= ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym
	}
	if caps&policy.Update != 0 {
		a |= ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
	}
	if caps&policy.Delete != 0 {
		a |= ll.AccessFSRemoveDir | ll.AccessFSRemoveFile
	}
	if caps&moveCaps == moveCaps {
		a |= ll.AccessFSRefer
	}
	if caps&policy.Execute != 0 {
		a |= ll.AccessFSExecute
	}
	return a
}
