//go:build linux && amd64

package differential

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

const operatorVar = "TOOLGUARD_OPERATOR" // where the programs are

// TestMain is also the guarded process: it does the operations that it reads and answers how they ended.
func TestMain(m *testing.M) {
	if programs = os.Getenv(operatorVar); programs == "" {
		os.Exit(m.Run())
	}
	if err := alone(); err != nil {
		panic(err)
	}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	_ = out.Encode([]result{})
	for {
		var w work
		if err := in.Decode(&w); err != nil {
			os.Exit(0)
		}
		_ = out.Encode(w.do())
	}
}

// alone makes the calling thread one that operations can be done on: with a current folder of its own, and without the
// capabilities, which a session hasn't either: what it gets is compared with what the same thread gets without one.
func alone() error {
	runtime.LockOSThread()
	unix.Umask(0)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0])
}

// work is what a process is told to do.
type work struct {
	Mine, Others []operation // Others are for a second process of the same session, at the same time
	Times        int
}

// result is how an operation ended, and which file it then had open, if any.
type result struct {
	Errno syscall.Errno
	File  policy.FileID
}

func (w work) do() (all []result) {
	var second *process
	if len(w.Others) > 0 {
		var err error
		if second, err = start("/proc/self/exe"); err == nil {
			err = second.in.Encode(work{Mine: w.Others, Times: w.Times})
		}
		if err != nil {
			panic(err)
		}
	}
	for range max(1, w.Times) {
		for _, o := range w.Mine {
			all = append(all, o.do())
		}
	}
	if second != nil {
		more, err := second.answer()
		if err = errors.Join(err, second.end()); err != nil {
			panic(err)
		}
		all = append(all, more...)
	}
	return all
}

// process does what it's told.
type process struct {
	cmd   *exec.Cmd
	in    *gob.Encoder
	out   *gob.Decoder
	close func() error
}

func start(command ...string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Dir = "/"
	p.cmd.Env = []string{"HOME=/root", "PATH=/usr/bin:/bin", operatorVar + "=" + programs}
	p.cmd.Stderr = os.Stderr
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		return nil, err
	}
	p.in, p.out, p.close = gob.NewEncoder(in), gob.NewDecoder(out), in.Close
	if _, err := p.answer(); err != nil { // it's there
		return nil, errors.Join(err, p.cmd.Wait())
	}
	return p, nil
}

func (p *process) answer() (all []result, err error) {
	return all, p.out.Decode(&all)
}

// do has it do something. An answer that doesn't come is the test's end.
func (p *process) do(w work) ([]result, error) {
	defer time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("no answer to %v", w)) }).Stop()
	if err := p.in.Encode(w); err != nil {
		return nil, err
	}
	return p.answer()
}

func (p *process) end() error {
	_ = p.close()
	return p.cmd.Wait()
}

// unguarded does operations as the guarded process does, beside it. The thread ends with the goroutine.
func unguarded() (do func(operation) syscall.Errno, end func(), err error) {
	in, out := make(chan operation), make(chan syscall.Errno)
	ready := make(chan error)
	go func() {
		ready <- alone()
		for o := range in {
			out <- o.do().Errno
		}
	}()
	if err := <-ready; err != nil {
		return nil, nil, err
	}
	return func(o operation) syscall.Errno { in <- o; return <-out }, func() { close(in) }, nil
}
