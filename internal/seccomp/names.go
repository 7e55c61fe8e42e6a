package seccomp

import "github.com/elastic/go-seccomp-bpf/arch"

// newer are the calls since Linux 6.15, which the library's tables end with; the numbers are the same on every
// architecture. harmless ones pass; the others are answered with ENOSYS like all that is newer still. file_setattr changes
// a file's attributes by path, unseen by Landlock; listns looks beyond the session.
var newer = []struct {
	name     string
	nr       int
	harmless bool
}{
	{"file_getattr", 468, true},     // 6.17
	{"file_setattr", 469, false},    // 6.17
	{"listns", 470, false},          // 6.19
	{"rseq_slice_yield", 471, true}, // 7.0
}

// newest is the highest number in the library's tables: open_tree_attr (Linux 6.15).
const newest = 467

// byArch is the table for an AUDIT_ARCH_ value, nil for an unknown one.
func byArch(id uint32) *arch.Info {
	for _, a := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.I386, arch.ARM} {
		if uint32(a.ID) == id {
			return a
		}
	}
	return nil
}

// Name is the name of a system call as the audit records give it: arch is an AUDIT_ARCH_ value, and a number with the x32
// bit names the x32 call. "" when it isn't known.
func Name(archID uint32, nr int) string {
	a := byArch(archID)
	if a == nil {
		return ""
	}
	if a == arch.X86_64 && nr&x32Bit != 0 && nr > 0 {
		return arch.X32.SyscallNumbers[nr&^x32Bit]
	}
	if name := a.SyscallNumbers[nr]; name != "" {
		return name
	}
	for _, n := range newer {
		if n.nr == nr {
			return n.name
		}
	}
	return ""
}

// x32Bit marks the numbers of the x32 ABI, which shares x86_64's architecture value (__X32_SYSCALL_BIT).
const x32Bit = 0x40000000

// known tells whether any supported architecture has the call, so that one policy serves them all.
func known(name string) bool {
	if _, ok := arch.X86_64.SyscallNames[name]; ok {
		return true
	}
	if _, ok := arch.AARCH64.SyscallNames[name]; ok {
		return true
	}
	return isNewer(name) >= 0
}

func isNewer(name string) int {
	for _, n := range newer {
		if n.name == name {
			return n.nr
		}
	}
	return -1
}
