package daemon

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A second toolguardd with the same files doesn't start.
func TestOneToolguardd(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	if _, err := New(d.cfg); err == nil || !strings.Contains(err.Error(), "another toolguardd uses "+d.cfg.State) {
		t.Error(err)
	}
}

// A new toolguardd removes the files of sessions that were never made, or were being removed, and the files of another version.
func TestStaleFiles(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	r := &record{Number: 1, Generation: 1, Sizes: map[uint32]int{1: 1}}
	r.Info.ID = "0000000000000001"
	saved(t, d, r, policiesOf(compiled(t, "/etc")))
	childtest.Must(t, os.Remove(d.file(r.Info.ID)))
	childtest.Must(t, os.WriteFile(d.folder()+"/0000000000000002.json", []byte("{}"), 0o600))
	d.takeOver()
	if files, err := os.ReadDir(d.folder()); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// A session whose policies can't be read stays as it is: the next toolguardd may take it over.
func TestUnreadable(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	s := inKernel(t, d, 0)
	c := compiled(t, "/")
	s.record.Sizes = map[uint32]int{1: 1}
	saved(t, d, &s.record, policiesOf(c))
	in, out, err := os.Pipe()
	childtest.Must(t, err)
	defer in.Close()
	pid := s.starts(t, "/bin/cat", in)
	s.kernel.Detach()
	name := d.policyFile(s.id, 1)
	childtest.Must(t, os.Rename(name, name+".away"))
	if err := d.resume(s.id); !errors.Is(err, os.ErrNotExist) || d.sessions[s.number] != nil {
		t.Errorf("taken over: %v", err)
	}
	childtest.Must(t, os.Rename(name+".away", name))
	if err := d.resume(s.id); err != nil || d.sessions[s.number] == nil {
		t.Errorf("not taken over: %v", err)
	}
	_ = out.Close()
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}
