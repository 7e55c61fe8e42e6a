package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A task is denied nothing because another one on its processor was preempted within a program that records something for a hook.
func TestPreemptedInProgram(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "granted/file", "other")
	must(t, os.Symlink("file", dir+"/granted/link"))
	must(t, os.Symlink("file", dir+"/link"))
	s, c := begin(t, k, dir+"/granted read+update")
	ended, lookedUp := make(chan error, 1), atomic.Uint64{}
	var over atomic.Bool
	go func() {
		ended <- childtest.Thread(func() error {
			onFirstProcessor(t)
			var st unix.Stat_t
			for !over.Load() {
				_ = unix.Stat(dir+"/granted/file", &st)
				_ = unix.Chmod(dir+"/other", 0o600)
				lookedUp.Add(1)
			}
			return nil
		})
	}()
	const operations = 5000 // without the copies, 20 to 30 of them are denied in an emulated machine with Linux 7.2
	var h *collected
	denied := 0
	confined(t, s, func() {
		h = listen(s)
		onFirstProcessor(t)
		text := make([]byte, 10)
		for range operations {
			_, read := unix.Readlink(dir+"/granted/link", text)
			times := unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/granted/file", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
			if read != nil || times != nil {
				denied++
			}
		}
		if _, err := unix.Readlink(dir+"/link", text); err != unix.EACCES {
			t.Errorf("a link that isn't granted is read: %v", err)
		}
	})
	over.Store(true)
	must(t, <-ended)
	_, err := s.End()
	must(t, err)
	if denied > 0 || lookedUp.Load() == 0 {
		t.Errorf("%d of %d operations were denied, during %d look-ups", denied, operations, lookedUp.Load())
	}
	if want := "readlink rule " + dir + "/link needs read has none: no rule"; !slices.ContainsFunc(h.lines(c), func(l string) bool { return strings.HasSuffix(l, want) }) {
		t.Errorf("no event %q in\n%s", want, strings.Join(h.lines(c), "\n"))
	}
	skips := map[string]uint64{}
	for name, hook := range hooks {
		if !hook.twice {
			continue
		}
		for _, copied := range []string{name, name + "_2"} {
			skips[copied] = skipped(t, "toolguard_"+copied, hook.optional != "")
		}
	}
	t.Logf("during %d look-ups the kernel skipped %v", lookedUp.Load(), skips)
}

// skipped returns how often the kernel skipped an attached program.
func skipped(t *testing.T, name string, optional bool) uint64 {
	t.Helper()
	l, err := link.LoadPinnedLink(filepath.Join(versionFolder, name), nil)
	if optional && errors.Is(err, os.ErrNotExist) {
		return 0
	}
	must(t, err)
	defer l.Close()
	info, err := l.Info()
	must(t, err)
	p, err := ebpf.NewProgramFromID(info.Program)
	must(t, err)
	defer p.Close()
	stats, err := p.Stats()
	must(t, err)
	return stats.RecursionMisses
}

func onFirstProcessor(t *testing.T) {
	var set unix.CPUSet
	set.Set(0)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(fmt.Errorf("stay on one processor: %w", err))
	}
}
