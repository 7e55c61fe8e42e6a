package loader

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func sleeper() (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sleep", "1000")
	return cmd, cmd.Start()
}

func kill(pid func(p *tryState) int, sig unix.Signal) func(p *tryState) error {
	return func(p *tryState) error { return unix.Kill(pid(p), sig) }
}

func outsidePID(p *tryState) int { return p.Outside }
func toolguard(p *tryState) int  { return p.Toolguard }

var taskTries = []try{
	{"signal 0 to an outside process", kill(outsidePID, 0), eperm, nil},
	{"SIGCONT to an outside process", kill(outsidePID, unix.SIGCONT), eperm, nil},
	{"signal toolguard", kill(toolguard, 0), eperm, nil},
	{"signal toolguard's session thread", func(p *tryState) error { return unix.Tgkill(p.Toolguard, p.Thread, 0) }, eperm, nil},
	{"signal an outside process's group", func(p *tryState) error { return unix.Kill(-p.Outside, 0) }, eperm, nil},
	{"signal an outside process by pidfd", func(p *tryState) error {
		fd, err := unix.PidfdOpen(p.Outside, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
	}, eperm, nil},
	{"signal a child", own2(func(pid int) error { return unix.Kill(pid, unix.SIGTERM) }), nil, nil},
	{"signal oneself", func(p *tryState) error { return unix.Kill(os.Getpid(), 0) }, nil, nil},
	{"trace an outside process", func(p *tryState) error { return trace(p.Outside) }, eperm, nil},
	{"trace a child", own2(trace), nil, nil},
	{"seize an outside process", func(p *tryState) error {
		_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.Outside), 0, 0, 0, 0)
		if e == 0 {
			_ = unix.PtraceDetach(p.Outside)
		}
		return errno(e)
	}, eperm, nil},
	{"an outside process's program", func(p *tryState) error { _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Outside)); return err }, eacces, nil},
	{"a child's program", own2(func(pid int) error { _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); return err }), nil, nil},
	{"follow an outside process's root", func(p *tryState) error { _, err := os.Stat(fmt.Sprintf("/proc/%d/root/", p.Outside)); return err }, eacces, nil},
	{"stat of an outside process", func(p *tryState) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Outside)); return err }, nil, nil},
	{"open an outside process's memory", func(p *tryState) error {
		return closing(unix.Open(fmt.Sprintf("/proc/%d/mem", p.Outside), unix.O_RDWR, 0))
	}, eacces, nil},
	{"read an outside process's memory", func(p *tryState) error { return readMemory(p.Outside) }, eperm, unix.EFAULT},
	{"take an outside process's descriptor", func(p *tryState) error { return takeFD(p.Outside) }, eperm, nil},
	{"take a child's descriptor", own2(takeFD), nil, nil},
	{"an outside process's nice", func(p *tryState) error { return unix.Setpriority(unix.PRIO_PROCESS, p.Outside, 1) }, eperm, nil},
	{"a child's nice", own2(func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 1) }), nil, nil},
	{"an outside process's scheduler", func(p *tryState) error { return scheduler(p.Outside) }, eperm, nil},
	{"a child's scheduler", own2(scheduler), nil, nil},
	{"an outside process's processors", func(p *tryState) error { return processors(p.Outside) }, eperm, nil},
	{"a child's processors", own2(processors), nil, nil},
	{"an outside process's limits", func(p *tryState) error { return limits(p.Outside) }, eperm, nil},
	{"a child's limits", own2(limits), nil, nil},
	{"an outside process's I/O priority", func(p *tryState) error { return ioprio(p.Outside) }, eperm, nil},
	{"a child's I/O priority", own2(ioprio), nil, nil},
	{"move an outside process's memory", func(p *tryState) error { return moveMemory(p.Outside) }, eperm, nil},
	{"move a child's memory", own2(moveMemory), nil, nil},
	{"have a pipe kill an outside process", sigio(func(fd, pid int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, pid); return err }), errAlive, nil},
	{"have a pipe kill an outsidePID, by F_SETOWN_EX", sigio(func(fd, pid int) error {
		owner := [2]int32{1, int32(pid)}
		_, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner)))
		return errno(e)
	}), errAlive, nil},
	{"have a pipe kill a child", func(p *tryState) error {
		cmd, err := sleeper()
		if err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		return sigioTo(cmd.Process.Pid, func(fd, pid int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, pid); return err })
	}, nil, nil},
	{"have more files signal oneself than a session may", func(*tryState) error { return owned(257) }, unix.ENOMEM, nil}, // MAX_OWNED in bpf/lsm/task.c
	{"have as many as it may", func(*tryState) error { return owned(200) }, nil, nil},                                    // others have some open
	{"have a pipe signal oneself", func(p *tryState) error {
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGIO)
		defer signal.Stop(c)
		var fds [2]int
		if err := unix.Pipe(fds[:]); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, os.Getpid()); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC); err != nil {
			return err
		}
		_, _ = unix.Write(fds[1], []byte("x"))
		select {
		case <-c:
			return nil
		case <-time.After(30 * time.Second):
			return errors.New("no signal")
		}
	}, nil, nil},
}

var errAlive = errors.New("alive")

// sigio has a pipe kill a process that the test starts outside for this.
func sigio(own func(fd, pid int) error) func(p *tryState) error {
	return func(p *tryState) error {
		if _, err := unix.Write(p.fds, []byte("victim")); err != nil {
			return err
		}
		buf := make([]byte, 16)
		n, err := unix.Read(p.fds, buf)
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(string(buf[:n]))
		if err != nil {
			return err
		}
		return sigioTo(pid, own)
	}
}

func sigioTo(pid int, own func(fd, pid int) error) error {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	if err := own(fds[0], pid); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETSIG, int(unix.SIGKILL)); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC); err != nil {
		return err
	}
	if _, err := unix.Write(fds[1], []byte("x")); err != nil {
		return err
	}
	for range 100 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errAlive
}

// owned has so many files signal this process.
func owned(n int) error {
	for range n {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("eventfd: %w", err)
		}
		defer unix.Close(fd)
		for range 2 { // the same one counts once
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, os.Getpid()); err != nil {
				return err
			}
		}
	}
	return nil
}

// The number of files that send signals is limited for all sessions of one user together, so that it doesn't exhaust other users' quota.
func TestOwnedByUser(t *testing.T) {
	k := kernel(t)
	owners, err := openPin("owners")
	must(t, err)
	defer owners.Close()
	const share = 1024 * 256 / 4        // MAX_OWNED_BY_USER in bpf/lsm/task.c
	root, other := uint32(0), uint32(1) // whichever user runs in it
	before := uint32(0)
	if err := owners.Lookup(root, &before); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	for _, x := range []struct {
		user uint32
		had  uint32
		want error
	}{{root, share - 1, nil}, {root, share, unix.ENOMEM}, {other, share - 1, nil}, {other, share, unix.ENOMEM}} {
		must(t, errors.Join(owners.Put(root, uint32(share)), owners.Put(x.user, x.had)))
		s, _ := begin(t, k, "/ read")
		atomic.StoreUint32(&s.at.User, x.user)
		confined(t, s, func() {
			if err := owned(1); !errors.Is(err, x.want) {
				t.Errorf("one more file, when user %d has %d: %v, want %v", x.user, x.had, err, x.want)
			}
		})
		end(t, s)
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // a file is closed for good some moments later
			var now uint32
			must(t, owners.Lookup(x.user, &now))
			if now == x.had {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("user %d, who had %d, has %d when it's closed", x.user, x.had, now)
			}
		}
	}
	must(t, errors.Join(owners.Put(root, before), owners.Delete(other)))
}

// own2 does something to a child.
func own2(f func(pid int) error) func(p *tryState) error {
	return func(p *tryState) error {
		cmd, err := sleeper()
		if err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		return f(cmd.Process.Pid)
	}
}

func trace(pid int) error {
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	var ws unix.WaitStatus
	_, _ = unix.Wait4(pid, &ws, unix.WALL, nil)
	return unix.PtraceDetach(pid)
}

func readMemory(pid int) error {
	var b [1]byte
	local := unix.Iovec{Base: &b[0], Len: 1}
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 4096, Len: 1}}, 0)
	return err
}

func takeFD(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return closing(unix.PidfdGetfd(fd, 0, 0))
}

func scheduler(pid int) error {
	var param [4]byte
	_, _, e := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), 3, uintptr(unsafe.Pointer(&param)))
	return errno(e)
}

func processors(pid int) error {
	var set unix.CPUSet
	set.Set(0)
	return unix.SchedSetaffinity(pid, &set)
}

func limits(pid int) error {
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}

func ioprio(pid int) error {
	_, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|4)
	return errno(e)
}

func moveMemory(pid int) error {
	mask := uint64(1)
	_, _, e := unix.Syscall6(unix.SYS_MIGRATE_PAGES, uintptr(pid), 64, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&mask)), 0, 0)
	return errno(e)
}
