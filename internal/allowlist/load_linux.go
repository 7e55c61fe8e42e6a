package allowlist

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"unsafe"

	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allThreads applies a filter to all threads of the process at once. Without ESRCH (Linux 5.7), a thread that it can't be loaded
// for would be reported by a positive number, like success.
const allThreads = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH

// Load restricts this process to a program's list, permanently.
func Load(p Program) error {
	if info, _ := debug.ReadBuildInfo(); hasCgo(info) {
		return fmt.Errorf("%s was built with cgo, whose threads start with system calls that aren't on its list: build it with CGO_ENABLED=0", p.name)
	}
	runtime.LockOSThread() // no_new_privs is set for this thread; the kernel sets it for the others with the filters
	defer runtime.UnlockOSThread()
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = p.loadArguments()
	}
	if err == nil {
		err = p.loadCalls()
	}
	if err != nil {
		return fmt.Errorf("restrict %s to the system calls that it needs: %w (this requires a kernel with CONFIG_SECCOMP_FILTER)", p.name, err)
	}
	return nil
}

// hasCgo reports whether the program is linked with a C library, according to its build information.
func hasCgo(info *debug.BuildInfo) bool {
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

func (p *Program) loadArguments() error {
	f, err := p.arguments.Filter()
	if err != nil {
		return err
	}
	operation, flags, prog := f.Args()
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, operation, flags|allThreads, uintptr(unsafe.Pointer(prog))); errno != 0 {
		return errno
	}
	return nil
}

func (p *Program) loadCalls() error {
	info, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	return lib.LoadFilter(lib.Filter{Flag: allThreads | lib.FilterFlagLog, Policy: p.policy(info)})
}

// policy returns the list for an architecture. The library rejects a name that no architecture has.
func (p *Program) policy(info *arch.Info) lib.Policy {
	known := func(names []string) (list []string) {
		for _, name := range names {
			_, on := info.SyscallNames[name]
			_, amd64 := arch.X86_64.SyscallNames[name]
			_, arm64 := arch.AARCH64.SyscallNames[name]
			if on || !amd64 && !arm64 {
				list = append(list, name)
			}
		}
		return list
	}
	fatal := slices.DeleteFunc(slices.Clone(attacks), func(name string) bool { return slices.Contains(p.calls, name) })
	return lib.Policy{DefaultAction: lib.ActionErrno, Syscalls: []lib.SyscallGroup{
		{Names: known(p.calls), Action: lib.ActionAllow},
		{Names: known(fatal), Action: lib.ActionKillProcess},
	}}
}
