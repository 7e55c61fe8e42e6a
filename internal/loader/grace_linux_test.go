package loader

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
)

// program is a BPF program that runs until end. It stands for one that reads an image or adopts a thread.
type program struct {
	*stayStay
	ended chan error
}

func runProgram(t *testing.T) *program {
	t.Helper()
	var o stayObjects
	if err := loadStayObjects(&o, nil); err != nil {
		t.Fatalf("%+v", err)
	}
	mem, err := unix.Mmap(o.Stays.FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	p := &program{(*stayStay)(unsafe.Pointer(&mem[0])), make(chan error, 1)}
	go func() {
		_, err := o.Stay.Run(&ebpf.RunOptions{})
		p.ended <- err
	}()
	t.Cleanup(func() {
		p.end(t)
		_ = unix.Munmap(mem)
		_ = o.Close()
	})
	for end := time.Now().Add(time.Minute); !p.runs(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the program doesn't run")
		}
	}
	return p
}

func (p *program) runs() bool { return atomic.LoadUint32(&p.Runs) != 0 }

// end ends it; by now it may have ended by itself.
func (p *program) end(t *testing.T) {
	if atomic.SwapUint32(&p.Leave, 1) != 0 {
		return
	}
	must(t, <-p.ended)
}

// waits checks that f, once begun is true, doesn't return until the programs that run then have ended.
func waits(t *testing.T, f func() error, begun func() bool) {
	t.Helper()
	childtest.TwoProcessors(t) // the program occupies one
	p := runProgram(t)
	done := make(chan error, 1)
	go func() { done <- f() }()
	for !begun() {
		if !p.runs() {
			t.Fatal("it waits before it makes the change that programs may not see")
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Errorf("it has returned before the program ended: %v", err)
		return
	case <-time.After(100 * time.Millisecond): // without waiting it needs less than one
	}
	p.end(t)
	must(t, <-done)
}

// A program that has found a pending thread may adopt it later. CancelThread waits for such programs.
func TestCancelThreadWaits(t *testing.T) {
	k := kernel(t)
	s, _ := begin(t, k)
	defer end(t, s)
	thread := Thread{1, 2}
	must(t, s.ExpectThread(thread, 0))
	waits(t, func() error { return s.CancelThread(thread) }, func() bool {
		var start kernelStart
		return errors.Is(k.pending.Lookup(thread.key(), &start), ebpf.ErrKeyNotExist)
	})
}

// A running program may still read the former image. Its lines aren't reused until no such program runs.
func TestReloadWaits(t *testing.T) {
	s, _ := begin(t, kernel(t))
	defer end(t, s)
	must(t, reload(t, s, 2))
	img, err := image.New(compile(t), 3)
	must(t, err)
	former := s.at.FormerImage
	waits(t, func() error { return s.Reload(img) }, func() bool { return true })
	if s.at.FormerImage == former {
		t.Error("it still has the lines of the image before last")
	}
}
