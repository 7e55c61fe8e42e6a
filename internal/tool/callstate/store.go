//go:build unix

package callstate

import (
	"fmt"
	"time"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/constraint"
)

// How long a store keeps invocations.
const (
	maxIdle = 30 * 24 * time.Hour
	maxOpen = 24 * time.Hour // without a change of the invocation
)

// File is a store of calls in a file. It is safe for concurrent use, by processes too.
type File struct {
	path string
	now  func() time.Time
}

var _ constraint.Store = (*File)(nil)

// New returns the store in a file, which needn't exist.
func New(path string, now func() time.Time) *File { return &File{path, now} }

// Check returns which constraint denies a call; nil for none. Nothing is counted.
func (f *File) Check(c *constraint.Call, s *toolset.Settings) (d *constraint.Denial, err error) {
	err = f.change(c.Invocation, c.ID, func(h *constraint.History) (changed bool, err error) {
		d, _, err = h.Begin(c, s)
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Begin counts a call, unless a constraint denies it.
func (f *File) Begin(c *constraint.Call, s *toolset.Settings) (d *constraint.Denial, err error) {
	err = f.change(c.Invocation, c.ID, func(h *constraint.History) (changed bool, err error) {
		d, changed, err = h.Begin(c, s)
		return changed, err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// End records that a call has ended, and whether without an error.
func (f *File) End(invocation, id string, ok bool) error {
	return f.change(invocation, id, func(h *constraint.History) (bool, error) { return true, h.End(id, ok) })
}

// calls is the kind of file that a File is in.
var calls = kind[state]{
	what: "the state of calls", parse: parse,
	damaged: "remove the file to begin at zero", large: "use another file, or remove it to begin at zero",
}

// change is one transaction on the history of an invocation.
func (f *File) change(invocation, id string, do func(*constraint.History) (changed bool, err error)) error {
	if err := constraint.CheckNames(invocation, id); err != nil {
		return err
	}
	return calls.change(f.path, func(st *state) (bool, error) {
		now := f.now()
		st.prune(now)
		i := st.Invocations[invocation]
		if i == nil {
			i = new(entry)
			st.Invocations[invocation] = i
		}
		changed, err := do(&i.History)
		i.Used = now.UnixMilli()
		return changed, err
	})
}

// format is the first value of each file.
const format = "toolguard.calls"

// state is the content of a file.
type state struct {
	Format      string            `json:"format"`
	Version     int               `json:"version"`
	Invocations map[string]*entry `json:"invocations"`
}

// entry is one invocation.
type entry struct {
	Used int64 `json:"used_ms"` // the last change
	constraint.History
}

// parse reads the content of a file; nil: there is none.
func parse(text []byte) (*state, error) {
	st := &state{Format: format, Version: 1, Invocations: map[string]*entry{}}
	if text == nil {
		return st, nil
	}
	*st = state{}
	if err := decode(text, st); err != nil {
		return nil, err
	}
	if st.Format != format || st.Version != 1 || st.Invocations == nil {
		return nil, fmt.Errorf("it's no state of calls that this version reads: format %q, version %d", st.Format, st.Version)
	}
	for name, i := range st.Invocations {
		if i == nil || i.Used <= 0 || !i.Valid() || constraint.CheckNames(name, "") != nil {
			return nil, fmt.Errorf("it's damaged: the invocation %.40q is impossible", name)
		}
	}
	return st, nil
}

// prune removes invocations that weren't used for a long time, and sooner their open calls, which a host may never report as ended: such
// a call can't end any more, and counts again.
func (st *state) prune(now time.Time) {
	for name, i := range st.Invocations {
		switch idle := now.Sub(time.UnixMilli(i.Used)); {
		case idle > maxIdle:
			delete(st.Invocations, name)
		case idle > maxOpen:
			i.Open = nil
		}
	}
}
