package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// writerFolder makes this program a writer to a spool, which prints its progress after each Sync.
const writerFolder = "AUDIT_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerFolder); dir != "" {
		writeForever(dir)
	}
	os.Exit(m.Run())
}

func writeForever(dir string) {
	l := Start(Config{Folder: dir, Limits: Limits{FileSize: 256 << 10, Size: 1 << 30}})
	n := 0
	fmt.Sscan(os.Getenv("AUDIT_TEST_FROM"), &n)
	for {
		for range 1 + rand.IntN(20) + rand.IntN(2)*rand.IntN(200) {
			e := denial(n)
			l.Record(&e)
			n++
		}
		if err := l.Sync(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(n)
		time.Sleep(time.Duration(rand.IntN(2)) * time.Millisecond)
	}
}

// TestKilled kills a busy writer 100 times. Each time, the spool verifies before the next writer has repaired it, and the events
// that Sync reported as written are there, once and in order.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	var at Cursor
	next := 0 // the number of the next event
	for kill := range 100 {
		synced := killWriter(t, dir, next)
		if list, _ := files(dir); len(list) == 0 {
			continue // it hadn't started
		}
		if kill%10 == 0 {
			sound(t, dir)
		}
		s := open(t, dir, Limits{}) // repairs the spool
		appendAll(t, s, denials(-1, 1))
		_ = s.release()
		next, at = readOn(t, dir, next, at)
		if next < synced {
			t.Fatalf("%d were reported as written, %d exist", synced, next)
		}
	}
	r := sound(t, dir)
	if next == 0 || r.Lost > 0 || r.Gaps < 50 || r.Files < 3 {
		t.Errorf("%d events: %+v", next, r)
	}
	t.Logf("%d events in %d files, %d gaps", next, r.Files, r.Gaps)
}

// killWriter starts a writer and kills it. It returns the number up to which Sync reported the events as written.
func killWriter(t *testing.T, dir string, from int) (synced int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), writerFolder+"="+dir, fmt.Sprintf("AUDIT_TEST_FROM=%d", from))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Scan() // it has begun
	time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	for ok := true; ok; ok = lines.Scan() {
		fmt.Sscan(lines.Text(), &synced)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || !ended.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return synced
}

// readOn reads the new events of a spool, which are numbered from next without a gap.
func readOn(t *testing.T, dir string, next int, at Cursor) (int, Cursor) {
	t.Helper()
	r := NewReader(dir, at)
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return next, r.Cursor()
		}
		must(t, err)
		if n, ok := target(t, line); ok && n >= 0 {
			if n != next {
				t.Fatalf("%d is where %d belongs", n, next)
			}
			next++
		}
	}
}

// mount mounts a small file system, and unmounts it at the end of the test.
func mount(t *testing.T, kind string, kib int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts a file system")
	}
	dir := t.TempDir()
	args := []string{"-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", kib), "tmpfs", dir}
	if kind == "ext4" {
		image := filepath.Join(t.TempDir(), "image")
		writeFile(t, image, make([]byte, kib<<10))
		if out, err := exec.Command("mkfs.ext4", "-q", "-O", "^has_journal", image).CombinedOutput(); err != nil {
			t.Skipf("needs mkfs.ext4: %v %s", err, out)
		}
		args = []string{"-o", "loop", image, dir}
	}
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Skipf("needs to mount %s: %v %s", kind, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	return dir
}

// TestFullDisk checks that events beyond the disk's capacity are counted and the rest is stored. Once there is space, the gap is
// written without a further event, and sessions may start again.
func TestFullDisk(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			disk := mount(t, kind, 1024)
			dir := filepath.Join(disk, "audit")
			ballast := filepath.Join(disk, "ballast")
			writeFile(t, ballast, make([]byte, 300<<10))
			l := Start(Config{Folder: dir, Limits: Limits{FileSize: 100 << 10}})
			recorded, failed := 0, 0
			for ; recorded < 5000 && failed < 20; recorded++ {
				if err := recordOne(l, recorded); errors.Is(err, syscall.ENOSPC) {
					failed++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if failed < 20 {
				t.Fatal("the disk isn't full")
			}
			if err := l.Ready(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("sessions may begin: %v", err)
			}
			must(t, os.Remove(ballast))
			if !childtest.Eventually(func() bool { return l.Ready() == nil }) {
				t.Fatalf("not ready again: %v", l.Ready())
			}
			_, _ = l.Close()
			r := sound(t, dir)
			if got := len(targets(t, dir)); uint64(got)+r.Lost != uint64(recorded) || r.Lost == 0 || r.Inexact > 0 {
				t.Errorf("%d there and %d lost of %d: %+v", got, r.Lost, recorded, r)
			}
		})
	}
}

// TestFullDiskDrop checks that the oldest file is removed and new events are stored.
func TestFullDiskDrop(t *testing.T) {
	dir := filepath.Join(mount(t, "tmpfs", 1024), "audit")
	l := Start(Config{Folder: dir, Limits: Limits{FileSize: 100 << 10, Drop: true}})
	for i := range 2000 {
		if err := recordOne(l, i); err != nil || l.Ready() != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if _, err := l.Close(); err != nil {
		t.Error(err)
	}
	r := sound(t, dir)
	if list := targets(t, dir); r.Removed == 0 || list[len(list)-1] != 1999 {
		t.Errorf("%+v", r)
	}
}

// TestCloseOnFullDisk checks that the pending gaps are written at the end even if other processes have filled the disk, as long as a file
// may be removed. Otherwise the next writer reports that the spool wasn't closed.
func TestCloseOnFullDisk(t *testing.T) {
	for _, drop := range []bool{true, false} {
		t.Run(fmt.Sprint("drop ", drop), func(t *testing.T) {
			disk := mount(t, "tmpfs", 1024)
			dir := filepath.Join(disk, "audit")
			limits := Limits{FileSize: 50 << 10, Drop: drop}
			s := open(t, dir, limits)
			for n := 0; s.used() < 700<<10; n++ {
				appendAll(t, s, denials(n, 1))
			}
			ballast, err := os.Create(filepath.Join(disk, "ballast"))
			for err == nil {
				_, err = ballast.Write(make([]byte, 4096))
			}
			for range 20 {
				s.pendingGaps = append(s.pendingGaps, exactGap(1, "a loss of the test"))
			}
			err = s.Close()
			if drop && err != nil || !drop && !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			r := sound(t, dir)
			if gaps := strings.Count(gapsOf(t, dir), "a loss of the test"); drop && (gaps != 20 || r.Removed == 0) || !drop && r.Removed > 0 {
				t.Errorf("%d gaps, %+v", gaps, r)
			}
			must(t, errors.Join(ballast.Truncate(0), ballast.Close()))
			writeSpool(t, dir, limits, denials(0, 1))
			if unclosed := strings.Contains(gapsOf(t, dir), "wasn't closed"); unclosed == drop {
				t.Errorf("reported as not closed: %t\n%s", unclosed, gapsOf(t, dir))
			}
		})
	}
}

// TestDiskFilledByOthers checks that a process that fills the disk repeatedly has at most half of the spool removed, and that lost
// events are counted.
func TestDiskFilledByOthers(t *testing.T) {
	disk := mount(t, "tmpfs", 1024)
	dir := filepath.Join(disk, "audit")
	l := Start(Config{Folder: dir, Limits: Limits{FileSize: 50 << 10, Drop: true}})
	recorded, failed := 0, 0
	record := func() error {
		recorded++
		return recordOne(l, recorded-1)
	}
	for l.Usage().Bytes < 700<<10 {
		must(t, record())
	}
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	must(t, err)
	defer ballast.Close()
	for failed < 10 && recorded < 5000 {
		for err = nil; err == nil; {
			_, err = ballast.Write(make([]byte, 4096))
		}
		if err := record(); errors.Is(err, syscall.ENOSPC) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if used := l.Usage().Bytes; failed < 10 || used < 500<<10 || used > 600<<10 {
		t.Errorf("%d bytes are left, after %d failures", used, failed)
	}
	must(t, ballast.Truncate(0))
	must(t, record())
	_, _ = l.Close()
	r := sound(t, dir)
	all := targets(t, dir)
	if last := all[len(all)-1]; last != recorded-1 || r.Inexact > 0 || r.Removed == 0 || r.Lost+uint64(len(all)) != uint64(recorded) {
		t.Errorf("the last one is %d of %d, %d failed: %+v", last, recorded, failed, r)
	}
}

// TestReadOnlyDisk checks that no session may start while the disk isn't writable.
func TestReadOnlyDisk(t *testing.T) {
	disk := mount(t, "tmpfs", 1024)
	dir := filepath.Join(disk, "audit")
	l := Start(Config{Folder: dir})
	remount := func(how string) {
		if out, err := exec.Command("mount", "-o", "remount,"+how, disk).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	remount("ro")
	if err := recordOne(l, 0); !errors.Is(err, syscall.EROFS) || !errors.Is(l.Ready(), syscall.EROFS) {
		t.Error(err)
	}
	remount("rw")
	must(t, errors.Join(recordOne(l, 0), l.Ready()))
	_, _ = l.Close()
	if r := sound(t, dir); r.Lost != 1 || len(targets(t, dir)) != 1 {
		t.Errorf("%+v", r)
	}
}
