package kernelaudit

import (
	"slices"
	"strings"
	"syscall"
)

// maxPending bounds the calls whose end isn't recorded yet. Their number is normally that of the machine's processors.
const maxPending = 1024

// assembler combines the records of one system call. They share a serial, and the caller's record is written last, when the call returns.
type assembler struct {
	pending map[uint64][]*Denial
	order   []uint64 // serials in the order of their first record
	emit    func(*Denial)
}

func newAssembler(emit func(*Denial)) *assembler {
	return &assembler{pending: map[uint64][]*Denial{}, emit: emit}
}

// access adds a Landlock denial.
func (a *assembler) access(d *Denial) {
	if a.pending[d.Serial] == nil {
		if len(a.order) >= maxPending {
			a.finish(a.order[0], nil)
		}
		a.order = append(a.order, d.Serial)
	}
	a.pending[d.Serial] = append(a.pending[d.Serial], d)
}

// finish emits the denials of a serial, if any. An unknown caller is nil.
func (a *assembler) finish(serial uint64, c *caller) {
	denials := a.pending[serial]
	if denials == nil {
		return
	}
	delete(a.pending, serial)
	i := slices.Index(a.order, serial)
	a.order = slices.Delete(a.order, i, i+1)
	for _, d := range denials {
		if c != nil {
			c.describe(d)
			d.Moot = createsOnly(d) && c.returned && (c.errno != syscall.EACCES || slices.ContainsFunc(denials, deniesObject))
		}
		a.emit(d)
	}
}

// createsOnly reports whether the only denied right is to create a file. The kernel checks it before it looks up a name that isn't cached
// (lookup_open in fs/namei.c, Linux 5.6 and later). If an object has the name, it is opened and that check doesn't count. It counts if the
// call fails with EACCES and no right on an existing object was denied in it.
func createsOnly(d *Denial) bool {
	return len(d.Blockers) == 1 && strings.HasPrefix(d.Blockers[0], "fs.make_")
}

// deniesObject reports whether a right on an existing object was denied.
func deniesObject(d *Denial) bool {
	return slices.ContainsFunc(d.Blockers, func(b string) bool {
		return slices.Contains([]string{"fs.write_file", "fs.read_file", "fs.read_dir", "fs.truncate", "fs.execute"}, b)
	})
}

// flush emits all pending denials.
func (a *assembler) flush() {
	for len(a.order) > 0 {
		a.finish(a.order[0], nil)
	}
}
