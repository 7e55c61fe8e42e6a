package landlock

import (
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
)

// newest is the newest Landlock ABI that this package makes use of.
const newest = 11

// handled are the kinds of file access that a kernel's Landlock can forbid, by ABI.
func handled(abi int) uint64 {
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

// handledNet are the kinds of network access that a kernel's Landlock can forbid, by ABI.
func handledNet(abi int) (h uint64) {
	if abi >= 4 {
		h |= ll.AccessNetBindTCP | ll.AccessNetConnectTCP // Linux 6.7
	}
	if abi >= 10 {
		h |= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP // 7.2
	}
	return h
}

// onFiles are the kinds that can be granted on something that isn't a directory; the kernel refuses the others there
// (ACCESS_FILE, security/landlock/fs.c).
const onFiles = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate |
	ll.AccessFSIoctlDev | ll.AccessFSResolveUnix

// moving is what lets things be renamed and linked between folders.
const moving = policy.Create | policy.Delete

// rights is what grants caps. Device nodes are in none of them: they are never created. REFER lets a file move
// between two folders that both have it, and the kernel itself refuses, with EXDEV, a move that gains
// (current_check_refer_path). It goes with create and delete together: for a file the kernel compares only rights on
// files, so that a link could come to where it may be deleted when it couldn't before.
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
	if caps&moving == moving {
		a |= ll.AccessFSRefer
	}
	if caps&policy.Execute != 0 {
		a |= ll.AccessFSExecute
	}
	return a
}
