package seccomp

import (
	"slices"
	"strings"
)

//go:generate go test -count=1 -run ^TestTables$ . -update

// The values of AUDIT_ARCH_.
const (
	archX8664   = 0xc000003e
	archAARCH64 = 0xc00000b7
	archI386    = 0x40000003
	archARM     = 0x40000028
)

// machine is an architecture with filters: a column of the table.
type machine int

const (
	amd64 machine = iota
	arm64
	machines
)

// named is a system call with its number on each machine, -1 where there is none.
type named struct {
	name string
	nr   [machines]int16
}

// numbered is a system call of an architecture without filters, which only has a name in reports.
type numbered struct {
	nr   int32
	name string
}

// newer are the calls since Linux 6.15, the end of the tables. Their numbers are the same on every architecture. The harmless
// ones are allowed; the others fail with ENOSYS, as do even newer ones. file_setattr changes a file's attributes by path, which
// Landlock doesn't see. listns reads namespaces outside the session.
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

// newest is the highest number in the tables: open_tree_attr (Linux 6.15).
const newest = 467

// find returns a call in the table, or nil.
func find(name string) *named {
	i, ok := slices.BinarySearchFunc(calls[:], name, func(c named, name string) int { return strings.Compare(c.name, name) })
	if !ok {
		return nil
	}
	return &calls[i]
}

// number returns the machine's number of a system call.
func (m machine) number(name string) (nr int, ok bool) {
	c := find(name)
	if c == nil || c.nr[m] < 0 {
		return 0, false
	}
	return int(c.nr[m]), true
}

// Name returns the name of a system call in the audit records, or "": arch is an AUDIT_ARCH_ value, and a number with the x32 bit
// names the x32 call.
func Name(archID uint32, nr int) string {
	name := ""
	switch archID {
	case archX8664:
		if nr&x32Bit != 0 && nr > 0 {
			return foreign(callsX32[:], nr&^x32Bit)
		}
		name = amd64.name(nr)
	case archAARCH64:
		name = arm64.name(nr)
	case archI386:
		name = foreign(callsI386[:], nr)
	case archARM:
		name = foreign(callsARM[:], nr)
	default:
		return ""
	}
	if name != "" {
		return name
	}
	for _, n := range newer {
		if n.nr == nr {
			return n.name
		}
	}
	return ""
}

// name searches the whole table: names are only needed after a denial.
func (m machine) name(nr int) string {
	for i := range calls {
		if nr >= 0 && int(calls[i].nr[m]) == nr {
			return calls[i].name
		}
	}
	return ""
}

func foreign(table []numbered, nr int) string {
	i, ok := slices.BinarySearchFunc(table, nr, func(c numbered, nr int) int { return int(c.nr) - nr })
	if !ok {
		return ""
	}
	return table[i].name
}

// x32Bit marks the numbers of the x32 ABI, which shares x86_64's architecture value (__X32_SYSCALL_BIT).
const x32Bit = 0x40000000

// known reports whether any supported architecture has the call, so that one policy serves them all.
func known(name string) bool {
	for _, n := range newer {
		if n.name == name {
			return true
		}
	}
	return find(name) != nil
}
