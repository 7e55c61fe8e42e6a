package loader

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/toolguard/toolguard/internal/loader/image"
	"golang.org/x/sys/unix"
)

// Fact is a requirement on the machine.
type Fact struct {
	Name   string
	Err    error  // why it isn't met; nil: it is
	Detail string // the state of the machine
	Fix    string // how to meet it
}

// requirements are checked in this order before anything is loaded.
var requirements = []struct {
	name string
	look func() (detail string, err error)
	fix  string
}{
	{"bpf in the LSM list", checkActive, `add "bpf" to the kernel's lsm= list (CONFIG_LSM, or the boot parameter lsm=), and boot again`},
	{"LSM programs always run", checkNotSkipped, "Linux 6.1.54 or newer"},
	{"LSM programs always find a task's session", checkTaskStorage, "Linux 6.2 or newer, or the boot parameter preempt=voluntary"},
	{"LSM hooks", checkHooks, "Linux 6.1.54 or newer with CONFIG_DEBUG_INFO_BTF and CONFIG_SECURITY_PATH"},
	{"LSM programs can be loaded", checkLoad, "run as root, with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN; find out what denies it: kernel lockdown, " +
		"a hypervisor's or a container's settings; arm64 needs Linux 6.4"},
}

// ErrUnknown: a requirement can't be checked. Beginning a session shows whether it's met.
var ErrUnknown = errors.New("can't be determined")

// Probes checks all requirements. It leaves nothing behind.
func Probes() []Fact {
	out := make([]Fact, len(requirements))
	for i, f := range requirements {
		out[i] = Fact{Name: f.name, Fix: f.fix}
		out[i].Detail, out[i].Err = f.look()
	}
	return out
}

// Ready returns nil if sessions can be expected to begin: this version's programs are attached, or all requirements are met. Checking
// takes a tenth of a second. With recheck, a failure recorded since boot is ignored.
func Ready(recheck bool) error {
	for _, name := range []string{"path_rename", "task_kill", "unix_stream_connect", "sb_mount"} {
		if _, ok := hooks[name]; !ok {
			return errors.New("this build's programs don't mediate all that a session may not do")
		}
	}
	if err := firstPIDNamespace("/proc/self/ns/pid"); err != nil {
		return err
	}
	switch _, err := os.Stat(versionFolder); {
	case err == nil:
		return checkPins()
	case errors.Is(err, fs.ErrNotExist):
	default:
		return err
	}
	if why := recordedFailure(); why != "" && !recheck {
		return errors.New(why)
	}
	err := unmetRequirement()
	recordFailure(err)
	return err
}

// firstPID is the number of the first PID namespace's file (PROC_PID_INIT_INO, include/linux/proc_ns.h, since Linux 3.8).
const firstPID = 0xEFFFFFFC

var errContained = errors.New("this is a PID namespace of its own, as in a container, where processes have other numbers than the kernel's programs " +
	"know them by: run toolguardd outside of it, or root's toolguard")

// Contained reports whether this process is in a PID namespace of its own, as in a container.
func Contained() bool { return errors.Is(firstPIDNamespace("/proc/self/ns/pid"), errContained) }

// firstPIDNamespace returns an error for another PID namespace than the first one: the programs know threads by their numbers there.
func firstPIDNamespace(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return &os.PathError{Op: "stat", Path: file, Err: err}
	}
	if st.Ino != firstPID {
		return errContained
	}
	return nil
}

// checkPins returns an error if this process can't use the pinned programs, as inside a session.
func checkPins() error {
	m, err := openPin("rings")
	if err != nil {
		return err
	}
	return m.Close()
}

// failureFile is the file with the reason why this machine can't have the programs, so that only one start checks.
const failureFile = image.LockFolder + "/refused"

// recordedFailure reads that file. Most starts do, and package os would need nine more system calls and its poller.
func recordedFailure() string {
	fd, err := unix.Open(failureFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	why := make([]byte, 4<<10)
	n, _ := unix.Read(fd, why)
	return string(why[:max(0, n)])
}

// recordFailure writes or removes the file. If that fails, the next start checks again.
func recordFailure(err error) {
	switch {
	case err == nil:
		_ = os.Remove(failureFile)
	case folders() == nil:
		_ = os.WriteFile(failureFile, []byte(err.Error()), 0o600)
	}
}

// unmetRequirement returns the first requirement that isn't met.
func unmetRequirement() error {
	for _, f := range requirements {
		if _, err := f.look(); err != nil && !errors.Is(err, ErrUnknown) {
			return fmt.Errorf("it needs %q: %w (to get it: %s)", f.name, err, f.fix)
		}
	}
	return nil
}

// kernelFunctions returns which of the functions the kernel has. The list of all takes long to read, and megabytes of memory.
var kernelFunctions = sync.OnceValues(func() (map[string]bool, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	has := map[string]bool{"__bpf_prog_enter_recur": false, "bpf_cgrp_storage_get": false}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name := lines.Bytes()[bytes.LastIndexByte(lines.Bytes(), ' ')+1:]
		if _, asked := has[string(name)]; asked {
			has[string(name)] = true
		}
	}
	return has, lines.Err()
})

// checkActive checks that BPF is among the active LSMs. Without it, programs load and are never called.
func checkActive() (string, error) {
	b, err := os.ReadFile("/sys/kernel/security/lsm")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	list := strings.TrimSpace(string(b))
	if !slices.Contains(strings.Split(list, ","), "bpf") {
		return list, errors.New("it isn't in " + list)
	}
	return list, nil
}

// checkNotSkipped checks that the kernel doesn't skip an LSM program that interrupts itself on the same processor. Before commit
// 271de525e1d7 (Linux 6.2, and 6.1.54) it did, which had the effect of allowing. The same commit named the function that still skips.
func checkNotSkipped() (string, error) {
	has, err := kernelFunctions()
	if err != nil {
		return "", err
	}
	if !has["__bpf_prog_enter_recur"] {
		return "", errors.New("this kernel skips a program that would interrupt itself")
	}
	return "", nil
}

// checkTaskStorage checks that a program always finds the task's label. Before Linux 6.2 it doesn't if it preempted a lookup on the same processor
// (bpf_task_storage_trylock, kernel/bpf/bpf_task_storage.c). That needs a kernel with preempt=full.
func checkTaskStorage() (string, error) {
	has, err := kernelFunctions()
	if err != nil || has["bpf_cgrp_storage_get"] { // also new in Linux 6.2
		return "", err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	mode := "full"
	switch v := unix.ByteSliceToString(u.Version[:]); {
	case !strings.Contains(v, "PREEMPT"):
		return "", nil
	case strings.Contains(v, "PREEMPT_DYNAMIC"):
		mode = preemption()
	}
	if mode != "none" && mode != "voluntary" {
		return "preempt=" + mode, errors.New("this kernel may interrupt a program so that the next one can't find its task's session")
	}
	return "preempt=" + mode, nil
}

// preemption is the preemption mode of a kernel that selects it at boot, from debugfs, which need not be mounted; "unknown" if it can't
// be read.
func preemption() string {
	text := ""
	if fs, err := unix.Fsopen("debugfs", unix.FSOPEN_CLOEXEC); err == nil {
		defer unix.Close(fs)
		if unix.FsconfigCreate(fs) == nil {
			if top, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0); err == nil {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/sched/preempt", top))
				unix.Close(top)
				text = string(b)
			}
		}
	}
	for mode := range strings.FieldsSeq(text) { // none (voluntary) full
		if chosen, ok := strings.CutPrefix(mode, "("); ok {
			return strings.TrimSuffix(chosen, ")")
		}
	}
	line, _ := os.ReadFile("/proc/cmdline")
	for word := range strings.FieldsSeq(string(line)) {
		if mode, ok := strings.CutPrefix(word, "preempt="); ok {
			return mode
		}
	}
	return "unknown"
}

// checkHooks checks that the kernel has the hooks.
func checkHooks() (string, error) {
	spec, err := loadKernel()
	if err != nil {
		return "", err
	}
	all := len(spec.Programs)
	if err := removeMissingHooks(spec.Programs); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d", len(spec.Programs), all), nil
}

// checkLoad loads and attaches a program that denies nothing, on a rarely called hook.
func checkLoad() (string, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "toolguard_try", Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac, AttachTo: "quota_on", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if errors.Is(err, unix.EPERM) {
		return "", errors.New("the kernel doesn't permit it")
	}
	if err != nil {
		return "", err
	}
	defer p.Close()
	l, err := link.AttachLSM(link.LSMOptions{Program: p})
	if err != nil {
		return "", err
	}
	return "", l.Close()
}

// hasHook reports whether the kernel has a program's hook.
func hasHook(kernel *btf.Spec, p *ebpf.ProgramSpec) (bool, error) {
	name, kind := p.AttachTo, any(new(*btf.Func))
	switch {
	case p.Type == ebpf.LSM:
		name = "bpf_lsm_" + name
	case p.AttachType == ebpf.AttachTraceRawTp:
		name, kind = "btf_trace_"+name, new(*btf.Typedef)
	}
	err := kernel.TypeByName(name, kind)
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
