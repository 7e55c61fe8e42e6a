package mountstest

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// race starts sessions while this process, which is outside, exchanges a masked folder and a folder above a mask with symlinks to folders that no
// rule grants. No session may read or write there.
func (p *Program) race(t *testing.T) {
	uid := p.Users[len(p.Users)-1]
	elsewhere := Tree(t, "/var/tmp", uid, "id", "tree/.git/hooks/id", "tree/id")
	ws := p.tree(t, uid, "sub/.git/hooks/here", "above/.git/hooks/here")
	childtest.Must(t, os.Symlink(elsewhere, ws+"/link"))
	childtest.Must(t, os.Symlink(elsewhere+"/tree", ws+"/link2"))
	layer := Restricted(policy.ProtectOn, Rule(".", r|w))
	var started, changed int
	stop := exchange(t, ws+"/sub/.git/hooks", ws+"/link", ws+"/above", ws+"/link2")
	for range 25 {
		got, errs := p.New(t, ws, layer).Start(t, uid, "read|sub/.git/hooks/id", "read|above/id", "read|above/.git/hooks/id", "create|above/new", "create|sub/.git/hooks/new")
		for _, op := range []string{"read|sub/.git/hooks/id", "read|above/id", "read|above/.git/hooks/id"} {
			if errno, ok := got[op]; ok && errno == 0 {
				t.Errorf("%s succeeded", op)
			}
		}
		switch {
		case got != nil:
			started++
		case strings.Contains(errs, "it was changed while the session started"):
			changed++
		}
	}
	stop()
	for _, name := range []string{"/new", "/tree/new"} {
		if _, err := os.Lstat(elsewhere + name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was written: %v", name, err)
		}
	}
	t.Logf("%d of 25 sessions started, and %d mounts weren't the planned ones", started, changed)
	got := p.New(t, ws, layer).Run(t, uid, "read|sub/.git/hooks/here", "read|above/.git/hooks/here", "create|above/last", "create|sub/.git/hooks/last")
	if got["read|sub/.git/hooks/here"] != 0 || got["read|above/.git/hooks/here"] != 0 || got["create|above/last"] != 0 || got["create|sub/.git/hooks/last"] == 0 {
		t.Error(got)
	}
}

// exchange exchanges pairs of names all the time, until the function that it returns has put everything in its place again.
func exchange(t *testing.T, names ...string) (stop func()) {
	t.Helper()
	swap := func(pair []string) error {
		return unix.Renameat2(unix.AT_FDCWD, pair[0], unix.AT_FDCWD, pair[1], unix.RENAME_EXCHANGE)
	}
	var end atomic.Bool
	done := make(chan error)
	go func() {
		for !end.Load() {
			for i := 0; i < len(names); i += 2 {
				for range 2 * (i + 3) { // an even number
					if err := swap(names[i : i+2]); err != nil {
						done <- err
						return
					}
				}
			}
		}
		done <- nil
	}()
	return func() {
		end.Store(true)
		childtest.Must(t, <-done)
	}
}
