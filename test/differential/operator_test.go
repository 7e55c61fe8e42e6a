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

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

const (
	operatorVar  = "TOOLGUARD_OPERATOR" // where the programs are
	oneProcessor = "GOMAXPROCS=1"       // an emulated machine wakes another processor slowly
)

// TestMain is also the confined process: it executes the operations that it reads and answers with their results.
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

// alone prepares the calling thread for operations, with its own current folder.
func alone() error {
	runtime.LockOSThread()
	unix.Umask(0)
	return unix.Unshare(unix.CLONE_FS)
}

// bare does an operation without toolguard, and without capabilities, as the confined process has none.
func bare(o operation) syscall.Errno {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, none [2]unix.CapUserData
	err := unix.Capget(&head, &had[0])
	for i, caps := range had {
		none[i].Permitted = caps.Permitted // to restore them
	}
	err = errors.Join(err, unix.Capset(&head, &none[0]))
	got := o.do().Errno
	if err = errors.Join(err, unix.Capset(&head, &had[0])); err != nil {
		panic(err)
	}
	return got
}

// work is one request to a process.
type work struct {
	Mine, Others []operation // Others are for a second process of the same session, at the same time
	Times        int
}

// result is an operation's error, and the file that it opened, if any.
type result struct {
	Errno syscall.Errno
	File  fspath.FileID
}

var second *process // started on demand; it ends with the first

func (w work) do() (all []result) {
	if len(w.Others) > 0 {
		var err error
		if second == nil {
			second, err = start("/proc/self/exe")
		}
		if err == nil {
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
	if len(w.Others) > 0 {
		more, err := second.answer()
		if err != nil {
			panic(err)
		}
		all = append(all, more...)
	}
	return all
}

// process executes its orders.
type process struct {
	cmd   *exec.Cmd
	in    *gob.Encoder
	out   *gob.Decoder
	close func() error
}

// pipe is a pipe with blocking ends. Those of package os wake another thread for each read.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func start(command ...string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Dir = "/"
	p.cmd.Env = []string{"HOME=/root", "PATH=/usr/bin:/bin", operatorVar + "=" + programs, oneProcessor}
	p.cmd.Stderr = os.Stderr
	stdin, in, err1 := pipe()
	out, stdout, err2 := pipe()
	p.cmd.Stdin, p.cmd.Stdout = stdin, stdout
	if err := errors.Join(err1, err2, p.cmd.Start(), stdin.Close(), stdout.Close()); err != nil {
		return nil, err
	}
	p.in, p.out = gob.NewEncoder(in), gob.NewDecoder(out)
	p.close = func() error { return errors.Join(in.Close(), out.Close()) }
	if _, err := p.answer(); err != nil { // it has started
		return nil, errors.Join(err, p.cmd.Wait())
	}
	return p, nil
}

func (p *process) answer() (all []result, err error) {
	return all, p.out.Decode(&all)
}

// do sends a request and returns the answer. The test fails without one.
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
