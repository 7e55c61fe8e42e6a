package kernelaudit

import (
	"slices"
	"strings"
	"syscall"
)

// maxPending bounds the events whose end hasn't come. Their number is normally that of the machine's processors.
const maxPending = 1024

// assembler puts the records of one system call together: they share a serial, and the caller's record is written last, when
// the call returns.
type assembler struct {
	pending map[uint64][]*Denial
	order   []uint64 // serials in the order of their first record
	emit    func(*Denial)
}

func newAssembler(emit func(*Denial)) *assembler {
	return &assembler{pending: map[uint64][]*Denial{}, emit: emit}
}

// access adds a Landlock refusal.
func (a *assembler) access(d *Denial) {
	if a.pending[d.Serial] == nil {
		if len(a.order) >= maxPending {
			a.finish(a.order[0], nil)
		}
		a.order = append(a.order, d.Serial)
	}
	a.pending[d.Serial] = append(a.pending[d.Serial], d)
}

// finish hands over what a serial has, which may be nothing. A caller that isn't known is nil.
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
			d.Moot = makes(d) && c.ended && (c.errno != syscall.EACCES || slices.ContainsFunc(denials, opens))
		}
		a.emit(d)
	}
}

// makes reports whether all that was refused is making a file. The kernel asks for that before it has looked the name up, unless it knows the
// name already (lookup_open in fs/namei.c, Linux 5.6 and later): where an object has the name it's opened, and its answer to the question
// doesn't count. It counts in the end where the call fails for that reason (EACCES), and nothing that has the name was refused in it.
func makes(d *Denial) bool {
	return len(d.Blockers) == 1 && strings.HasPrefix(d.Blockers[0], "fs.make_")
}

// opens reports whether an object was refused that is there.
func opens(d *Denial) bool {
	return slices.ContainsFunc(d.Blockers, func(b string) bool {
		return slices.Contains([]string{"fs.write_file", "fs.read_file", "fs.read_dir", "fs.truncate", "fs.execute"}, b)
	})
}

// flush hands over everything, for when nothing more is to come.
func (a *assembler) flush() {
	for len(a.order) > 0 {
		a.finish(a.order[0], nil)
	}
}
