//go:build linux && amd64

package differential

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// pair is two names that a process outside repeatedly exchanges, or moves one thing between.
type pair struct{ a, b string }

// other is a path's other name by the pair; ok is false when it has none.
func (p pair) other(path string) (other string, ok bool) {
	for _, x := range []pair{p, {p.b, p.a}} {
		if within(path, x.a) {
			return x.b + path[len(x.a):], true
		}
	}
	return "", false
}

func within(path, dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }

// pairs chooses names to be exchanged, and has rules give what neither of the two does to what they would be if they were mixed up:
// to the other's name in the one's folder. Two of them are symlinks, and what they lead to never has another name.
func (s *scene) pairs() (list []pair) {
	for len(list) < 3 {
		p := pair{s.present(), s.present()}
		switch s.r.IntN(3) {
		case 0:
			p.b = s.missing()
		case 1:
			for _, link := range []*string{&p.a, &p.b} {
				to := *link
				*link = s.missing()
				_ = unix.Symlink(to, *link)
			}
		}
		if within(p.a, p.b) || within(p.b, p.a) || !straight(p.a) || !straight(p.b) {
			continue
		}
		list = append(list, p)
		caps := policy.Caps(s.r.IntN(int(policy.AllCaps) + 1))
		for _, mixed := range []string{filepath.Join(filepath.Dir(p.a), filepath.Base(p.b)), filepath.Join(filepath.Dir(p.b), filepath.Base(p.a))} {
			s.special = append(s.special, rule{mixed, policy.AllCaps &^ caps})
		}
		s.special = append(s.special, rule{p.a, caps}, rule{p.b, caps})
	}
	return list
}

// toggle exchanges them until it's stopped, with time enough between for a walk to a path.
func (p pair) toggle(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rand.IntN(500)) * time.Microsecond):
		}
		if unix.Renameat2(unix.AT_FDCWD, p.a, unix.AT_FDCWD, p.b, unix.RENAME_EXCHANGE) != nil {
			_ = unix.Renameat2(unix.AT_FDCWD, p.a, unix.AT_FDCWD, p.b, unix.RENAME_NOREPLACE)
			_ = unix.Renameat2(unix.AT_FDCWD, p.b, unix.AT_FDCWD, p.a, unix.RENAME_NOREPLACE)
		}
	}
}

// object is a file, and what is known of it before a race.
type object struct {
	names  []string
	caps   policy.Caps // that rules grant under each of its names
	fd     int         // so that no other file gets its number
	before unix.Stat_t
	xattr  bool
}

// objects are all files of the tree.
func (x *race) objects() (list []*object) {
	x.t.Helper()
	known := map[fspath.FileID]*object{}
	x.walk(func(path string, id fspath.FileID) {
		if o := known[id]; o != nil {
			o.names = append(o.names, path)
			return
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		must(x.t, err)
		o := &object{names: []string{path}, caps: policy.AllCaps, fd: fd}
		must(x.t, unix.Fstat(fd, &o.before))
		for _, k := range x.c.Links {
			if k.File == id {
				o.caps &= x.c.Rules[k.Rule].FS.Caps
			}
		}
		o.xattr = o.hasXattr()
		known[id] = o
		list = append(list, o)
	})
	return list
}

// walk goes to all that has a name that isn't too long.
func (s *scene) walk(visit func(path string, id fspath.FileID)) {
	_ = filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil {
			return fs.SkipDir
		}
		visit(path, fspath.FileID{Dev: st.Dev, Inode: st.Ino})
		return nil
	})
}

func (o *object) hasXattr() bool {
	_, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", o.fd), "user.t", nil)
	return err == nil
}

// needed is what the changes to it took.
func (o *object) needed() (need policy.Caps) {
	var st unix.Stat_t
	if unix.Fstat(o.fd, &st) != nil {
		return 0
	}
	if st.Nlink == 0 {
		return policy.Delete | policy.Update // one of the two
	}
	touched := st.Mtim != o.before.Mtim
	if st.Mode&unix.S_IFMT == unix.S_IFDIR { // what is made in it touches it, too
		touched = touched && st.Mtim == unix.Timespec{Sec: 2}
	}
	if touched || st.Mode != o.before.Mode || st.Size != o.before.Size && st.Mode&unix.S_IFMT == unix.S_IFREG || o.hasXattr() != o.xattr {
		return policy.Update
	}
	return 0
}

// races are operations of one or two confined processes, with or without a process outside that moves files. How they end can't be
// known; but nothing may get what none of its names gives.
func (s *scene) races(t *testing.T, operator string, n int, all tally) {
	t.Helper()
	pairs := s.pairs()
	file, c := s.policy(t, operator)
	events := filepath.Join(t.TempDir(), "events")
	confined := startConfined(t, file, events, operator)
	for done := 0; done < n && !t.Failed(); {
		x := &race{scene: s, t: t, c: c, all: all}
		if p := pairs[s.r.IntN(len(pairs))]; s.r.IntN(3) > 0 && straight(p.a) && straight(p.b) {
			x.pairs = []pair{p}
		}
		done += x.run(confined)
	}
	must(t, confined.end())
	reported, err := os.ReadFile(events)
	if at := bytes.Index(reported, []byte(policy.EngineError)); at >= 0 {
		reported = reported[bytes.LastIndexByte(reported[:at], '\n')+1:]
		t.Errorf("the kernel and the evaluator disagree: %s", reported[:bytes.IndexByte(reported, '\n')])
	}
	if err != nil || len(reported) == 0 {
		t.Errorf("nothing was reported: %v", err)
	}
}

type race struct {
	*scene
	t     *testing.T
	c     *policy.Compiled
	all   tally
	pairs []pair // what any process may move from one name to the other
}

// run is one race: of many operations once, or, with a process outside, of few repeatedly.
func (x *race) run(confined *process) (done int) {
	for range 10 {
		x.add(x.fresh())
	}
	w := work{Times: 1}
	some, outside := 50, slices.Clone(x.pairs)
	if len(outside) > 0 {
		some, w.Times = 4, 20
	}
	for range some {
		w.Mine = append(w.Mine, x.near())
		w.Others = append(w.Others, x.near())
	}
	objects := x.objects()
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for _, p := range outside {
		wait.Go(func() { p.toggle(stop) })
		for _, o := range slices.Concat(w.Mine, w.Others) { // when allowed, the process outside moves them, too
			if o.Path2 != "" {
				x.pairs = append(x.pairs, pair{o.Path, o.Path2})
			}
		}
	}
	results, err := confined.do(w)
	close(stop)
	wait.Wait()
	if err != nil {
		x.t.Fatalf("the session is gone: %v", err)
	}
	x.count(w, results)
	x.check(w, results, objects)
	return len(results)
}

// near is, half of the time, an operation on files that the process outside moves.
func (x *race) near() operation {
	o := x.randomOperation()
	for len(x.pairs) > 0 && o.Path2 != "" && !(x.plain(o.Path) && x.plain(o.Path2)) {
		o = x.randomOperation()
	}
	if o.By == "old" && o.Do == "open" {
		o.By = "" // creat would wait at a fifo
	}
	if len(x.pairs) == 0 || o.Path2 != "" || x.r.IntN(2) == 0 {
		return o
	}
	o.Path = []string{x.pairs[0].a, x.pairs[0].b}[x.r.IntN(2)]
	if entries, err := os.ReadDir(o.Path); err == nil && len(entries) > 0 {
		o.Path = filepath.Join(o.Path, entries[x.r.IntN(len(entries))].Name())
	}
	return o
}

// plain reports whether a path's folders are what they're called, and stay that: what is moved by it then has these names.
func (x *race) plain(path string) bool {
	return straight(path) && !slices.ContainsFunc(x.pairs, func(p pair) bool {
		_, moves := p.other(path)
		return moves && (symlink(p.a) || symlink(p.b))
	})
}

// straight reports whether a path's folders are what they're called.
func straight(path string) bool {
	dir := filepath.Dir(path)
	at, err := filepath.EvalSymlinks(dir)
	return err == nil && at == dir
}

func symlink(path string) bool {
	_, err := os.Readlink(path)
	return err == nil
}

// raced follows the names of operations that are counted apart.
const raced = " (race)"

func (x *race) count(w work, results []result) {
	for i, r := range results {
		n := x.all.of(w.operation(i).Do + raced)
		n.Done++
		switch r.Errno {
		case 0:
			n.Allowed++
		case unix.EACCES:
			n.Denied++
		}
	}
}

// operation is the one whose result is the i-th.
func (w work) operation(i int) operation {
	if mine := len(w.Mine) * w.Times; i >= mine {
		return w.Others[(i-mine)%len(w.Others)]
	}
	return w.Mine[i%len(w.Mine)]
}

// check checks the results.
func (x *race) check(w work, results []result, objects []*object) {
	x.t.Helper()
	known := map[fspath.FileID]*object{}
	for _, o := range objects {
		known[fileOf(o.fd)] = o
		if need := o.needed(); need != 0 && !x.grants(o.names, need&o.caps, false) {
			x.t.Errorf("%v is changed or gone, and nothing grants one of %v, by the moves %q\n%v", o.names, need, x.pairs, w)
		}
	}
	for i, r := range results {
		o, does := known[r.File], w.operation(i)
		if o == nil || r.Errno != 0 {
			continue
		}
		for _, need := range has(does) {
			if need&^o.caps != 0 || !x.grants(o.names, need, true) {
				x.t.Errorf("%v: done on %v, and nothing grants %v", does, o.names, need)
			}
		}
	}
	made := map[fspath.FileID][]string{}
	x.walk(func(path string, id fspath.FileID) {
		if known[id] == nil && !slices.Contains(x.hidden, id) {
			made[id] = append(made[id], path)
		}
	})
	for _, names := range made {
		if !x.grants(names, policy.Create|policy.Update, false) {
			x.t.Errorf("%q is made, and may not be, by the moves %q\n%v", names, x.pairs, w)
		}
	}
	for _, o := range objects {
		_ = unix.Close(o.fd)
	}
}

// has is what an operation needed that has had a file open: at once, or one after the other, between which the file may have been moved.
func has(o operation) []policy.Caps {
	switch {
	case o.Do == "map" || o.Do == "mprotect":
		return []policy.Caps{policy.Read, policy.Execute}
	case o.Flags&unix.O_PATH != 0:
		return nil
	}
	switch o.Flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		return []policy.Caps{policy.Read}
	case unix.O_WRONLY:
		return []policy.Caps{policy.Update}
	}
	return []policy.Caps{policy.Read | policy.Update}
}

// gives reports whether all of need, or any of it, is given to something by one of the names that it had, or may have had.
func (x *race) grants(names []string, need policy.Caps, all bool) bool {
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	for todo := slices.Clone(names); len(todo) > 0; {
		caps := x.c.Caps(todo[0])
		if all && need&^caps == 0 || !all && need&caps != 0 || len(seen) > 10000 {
			return true
		}
		for _, p := range x.pairs {
			if other, ok := p.other(todo[0]); ok && !seen[other] {
				seen[other] = true
				todo = append(todo, other)
			}
		}
		todo = todo[1:]
	}
	return false
}
