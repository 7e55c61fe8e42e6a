package kernelaudit

// maxPending bounds the events whose end hasn't come. Their number is normally that of the machine's processors.
const maxPending = 1024

// assembler puts the records of one system call together: they share a serial, and end with an EOE record.
type assembler struct {
	pending map[uint64]*group
	order   []uint64 // serials in the order of their first record
	emit    func(*Denial)
}

type group struct {
	denials []*Denial
	caller  *caller
}

func newAssembler(emit func(*Denial)) *assembler {
	return &assembler{pending: map[uint64]*group{}, emit: emit}
}

// group returns the open group of a serial.
func (a *assembler) group(serial uint64) *group {
	if g := a.pending[serial]; g != nil {
		return g
	}
	if len(a.order) >= maxPending {
		a.finish(a.order[0])
	}
	g := &group{}
	a.pending[serial] = g
	a.order = append(a.order, serial)
	return g
}

// access adds a Landlock refusal.
func (a *assembler) access(d *Denial) {
	g := a.group(d.Serial)
	g.denials = append(g.denials, d)
}

// syscall adds the caller. Of system calls that nothing refused, nothing is kept.
func (a *assembler) syscall(serial uint64, c *caller) {
	if g := a.pending[serial]; g != nil {
		g.caller = c
	}
}

// finish hands over what a serial has.
func (a *assembler) finish(serial uint64) {
	g := a.pending[serial]
	if g == nil {
		return
	}
	delete(a.pending, serial)
	for i, s := range a.order {
		if s == serial {
			a.order = append(a.order[:i], a.order[i+1:]...)
			break
		}
	}
	for _, d := range g.denials {
		if g.caller != nil {
			g.caller.describe(d)
		}
		a.emit(d)
	}
}

// flush hands over everything, for when nothing more is to come.
func (a *assembler) flush() {
	for len(a.order) > 0 {
		a.finish(a.order[0])
	}
}
