//go:build unix

package callstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/constraint"
)

// The bounds of a store.
const (
	maxSize = 4 << 20 // bytes
	maxIdle = 30 * 24 * time.Hour
	maxOpen = 24 * time.Hour   // without a change of the invocation
	maxWait = 10 * time.Second // for the lock
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

// change is one transaction on the history of an invocation.
func (f *File) change(invocation, id string, do func(*constraint.History) (changed bool, err error)) (err error) {
	if err := constraint.CheckNames(invocation, id); err != nil {
		return err
	}
	rejected := (*constraint.RejectedError)(nil)
	defer func() {
		if err != nil && !errors.As(err, &rejected) {
			err = fmt.Errorf("the state of calls: %w", err)
		}
	}()
	dir, err := openFolder(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(f.path)
	if _, err := readFile(dir, name); err != nil { // before a lock is made next to what is no state
		return err
	}
	lock, err := lockFile(dir, name+".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	text, err := readFile(dir, name)
	if err != nil {
		return err
	}
	st, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w (remove the file to begin at zero)", f.path, err)
	}
	now := f.now()
	st.prune(now)
	i := st.Invocations[invocation]
	if i == nil {
		i = new(entry)
		st.Invocations[invocation] = i
	}
	changed, err := do(&i.History)
	if err != nil || !changed {
		return err
	}
	i.Used = now.UnixMilli()
	if text, err = json.Marshal(st); err != nil {
		return err
	}
	if len(text) > maxSize {
		return fmt.Errorf("%s would be larger than %d KiB: use another file, or remove it to begin at zero", f.path, maxSize>>10)
	}
	return replaceFile(dir, name, append(text, '\n'))
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
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(st); err != nil {
		return nil, fmt.Errorf("it's damaged, or no state of calls: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it's damaged: there is more after its end")
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

// openFolder opens the folder of a store, and checks that no other user can replace a file in it.
func openFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	user := uint32(os.Geteuid())
	if st.Uid != user && st.Uid != 0 || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return nil, errors.Join(fmt.Errorf("other users can replace files in %s (owner %d, mode %04o): use another folder, or chown and chmod go-w it", path, st.Uid, st.Mode&0o7777), dir.Close())
	}
	return dir, nil
}
