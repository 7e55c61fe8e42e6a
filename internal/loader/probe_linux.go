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

// Fact is something that the machine must have.
type Fact struct {
	Name   string
	Err    error  // why not; nil: it's there
	Detail string // what was found
	Fix    string // how to get it
}

// facts are looked at in this order before anything is loaded.
var facts = []struct {
	name string
	look func() (detail string, err error)
	fix  string
}{
	{"bpf in the LSM list", listed, `add "bpf" to the kernel's lsm= list (CONFIG_LSM, or the boot parameter lsm=), and boot again`},
	{"LSM programs always run", neverSkipped, "Linux 6.1.54 or newer"},
	{"LSM programs always know whom they guard", known, "Linux 6.2 or newer, or the boot parameter preempt=voluntary"},
	{"LSM hooks", hooked, "Linux 6.1.54 or newer with CONFIG_DEBUG_INFO_BTF and CONFIG_SECURITY_PATH"},
	{"LSM programs can be loaded", loadable, "run as root, with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN; find out what forbids it: kernel lockdown, " +
		"a hypervisor's or a container's settings; on arm64 it takes Linux 6.4"},
}

// ErrUnknown says that something can't be looked at. That it's there is shown when a session begins, or not.
var ErrUnknown = errors.New("can't be told")

// Probes looks at the machine. It leaves nothing behind.
func Probes() []Fact {
	out := make([]Fact, len(facts))
	for i, f := range facts {
		out[i] = Fact{Name: f.name, Fix: f.fix}
		out[i].Detail, out[i].Err = f.look()
	}
	return out
}

// Ready is nil where sessions can be expected to begin: this version's programs are attached, or nothing that they need is
// missing. Looking at all of that takes a tenth of a second. With again it's looked at although it was found missing since the
// machine was booted.
func Ready(again bool) error {
	for _, name := range []string{"path_rename", "task_kill", "unix_stream_connect", "sb_mount"} {
		if _, ok := hooks[name]; !ok {
			return errors.New("this build's programs don't mediate all that a session may not do")
		}
	}
	if err := firstPIDNamespace("/proc/self/ns/pid"); err != nil {
		return err
	}
	switch _, err := os.Stat(current); {
	case err == nil:
		return reachable()
	case errors.Is(err, fs.ErrNotExist):
	default:
		return err
	}
	if why := noted(); why != "" && !again {
		return errors.New(why)
	}
	err := ready()
	remember(err)
	return err
}

// firstPID is the number of the first PID namespace's file (PROC_PID_INIT_INO, include/linux/proc_ns.h, since Linux 3.8).
const firstPID = 0xEFFFFFFC

var errContained = errors.New("this is a PID namespace of its own, as in a container, where processes have other numbers than the kernel's programs " +
	"know them by: run toolguardd outside of it, or root's toolguard")

// Contained reports whether this process is in a PID namespace of its own, as in a container.
func Contained() bool { return errors.Is(firstPIDNamespace("/proc/self/ns/pid"), errContained) }

// firstPIDNamespace says why a process in the PID namespace can't own the programs: they know threads by their numbers in the first one.
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

// reachable tells whether what is pinned is for this process: inside a session it isn't.
func reachable() error {
	m, err := openPin("rings")
	if err != nil {
		return err
	}
	return m.Close()
}

// refused is where it's noted why this machine can't have the programs, so that only one start finds it out.
const refused = image.LockFolder + "/refused"

// noted is what is noted there. Most starts look, and package os would take nine more system calls and set its poller up.
func noted() string {
	fd, err := unix.Open(refused, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	why := make([]byte, 4<<10)
	n, _ := unix.Read(fd, why)
	return string(why[:max(0, n)])
}

// remember notes it, or forgets it. Where that can't be done, the next start looks for itself.
func remember(err error) {
	switch {
	case err == nil:
		_ = os.Remove(refused)
	case folders() == nil:
		_ = os.WriteFile(refused, []byte(err.Error()), 0o600)
	}
}

// ready is the first thing that's missing.
func ready() error {
	for _, f := range facts {
		if _, err := f.look(); err != nil && !errors.Is(err, ErrUnknown) {
			return fmt.Errorf("it needs %q: %w (to get it: %s)", f.name, err, f.fix)
		}
	}
	return nil
}

// functions tells which of two functions the kernel has. The list of all takes long to read, and megabytes to keep.
var functions = sync.OnceValues(func() (map[string]bool, error) {
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

// listed looks at the LSMs that are active. Programs load without it, and are never asked.
func listed() (string, error) {
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

// neverSkipped tells whether an LSM program runs also where it interrupts another run of itself on the same processor. Before
// commit 271de525e1d7 (Linux 6.2, and 6.1.54) it was left out then, which is as if it had allowed. The same commit gave the
// function that leaves out its name.
func neverSkipped() (string, error) {
	has, err := functions()
	if err != nil {
		return "", err
	}
	if !has["__bpf_prog_enter_recur"] {
		return "", errors.New("this kernel leaves a program out where it would interrupt itself")
	}
	return "", nil
}

// known: before Linux 6.2 a program finds no label while another task is being handed one on the same processor
// (bpf_task_storage_trylock, kernel/bpf/bpf_task_storage.c). That takes a kernel that lets tasks come in between.
func known() (string, error) {
	has, err := functions()
	if err != nil || has["bpf_cgrp_storage_get"] { // new in Linux 6.2, too
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
		return "preempt=" + mode, errors.New("this kernel lets a program be interrupted where the next one then doesn't know whom it guards")
	}
	return "preempt=" + mode, nil
}

// preemption is how a kernel that can be told so at boot preempts itself, as it says in a file system that need not be mounted;
// "unknown" where it says nothing.
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

// hooked looks for the hooks.
func hooked() (string, error) {
	spec, err := loadKernel()
	if err != nil {
		return "", err
	}
	all := len(spec.Programs)
	if err := prune(spec.Programs); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d", len(spec.Programs), all), nil
}

// loadable loads and attaches a program that allows what is allowed anyway, on a hook that is hardly ever called.
func loadable() (string, error) {
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

// hasHook tells whether there is a place in the kernel to attach to.
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
