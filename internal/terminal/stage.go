package terminal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageVar is the variable by which the outer process starts the monitor ("monitor TERMINAL CONTROL ANNOUNCE"), and the monitor the inner
// process ("inner ANNOUNCE"). The words in capitals are descriptors.
const stageVar = "TOOLGUARD_ASK_STAGE"

// program is what is executed again.
func program() string {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// stage takes this process's stage from the environment, so that no command gets it. It returns nil in the outer process.
func stage(name string, n int) (files []*os.File) {
	words := strings.Fields(os.Getenv(stageVar))
	if len(words) != n+1 || words[0] != name {
		return nil
	}
	_ = os.Unsetenv(stageVar)
	for _, w := range words[1:] {
		fd, err := strconv.Atoi(w)
		if err != nil || fd < 3 {
			return nil
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil
		}
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	return files
}

// Announce is the inner process's report of where it serves the session's calls.
type Announce struct{ file *os.File }

// Inner returns nil unless this process is the inner one of exec --ask. Call it before anything is started: it takes the stage from the
// environment.
func Inner() *Announce {
	if files := stage("inner", 1); files != nil {
		return &Announce{files[0]}
	}
	return nil
}

// Serves reports the address of the session's socket, once.
func (a *Announce) Serves(address string) error {
	_, err := fmt.Fprintln(a.file, address)
	return cmp.Or(err, a.file.Close())
}

// RunMonitor is the monitor, if this process is one: ok. Call it at the start of main.
func RunMonitor() (code int, ok bool) {
	files := stage("monitor", 3)
	if files == nil {
		return 0, false
	}
	m := &monitor{terminal: files[0], control: files[1]}
	if err := m.run(files[2]); err != nil {
		m.report("failed %v", err)
		return 125, true
	}
	return 0, true
}

// monitor leads the session of the pseudoterminal.
type monitor struct {
	terminal *os.File
	control  *os.File
	mu       sync.Mutex
	pid      int // of the inner process; 0: not started, or reaped
}

func (m *monitor) report(format string, args ...any) { fmt.Fprintf(m.control, format+"\n", args...) }

func (m *monitor) run(announce *os.File) error {
	if err := unix.IoctlSetInt(int(m.terminal.Fd()), unix.TIOCSCTTY, 0); err != nil {
		return fmt.Errorf("the terminal of the session: %w", err)
	}
	inner := exec.Command(program(), os.Args[1:]...)
	inner.Args[0] = os.Args[0]
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	if _, err := unix.FcntlInt(announce.Fd(), unix.F_SETFD, 0); err != nil {
		return err
	}
	inner.Env = append(os.Environ(), fmt.Sprintf("%s=inner %d", stageVar, announce.Fd()))
	inner.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: int(m.terminal.Fd())}
	if err := inner.Start(); err != nil {
		return err
	}
	m.pid = inner.Process.Pid
	announce.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.obey()
	}()
	m.report("exited %d", m.wait())
	// Without these, the outer process reads the end of the output. It closes its end of the control socket then.
	for _, f := range []*os.File{m.terminal, os.Stdin, os.Stdout, os.Stderr} {
		f.Close()
	}
	<-ended
	return nil
}

// wait waits for the end of the inner process and reports when it stops.
func (m *monitor) wait() (code int) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(m.pid, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 125
		case ws.Stopped():
			m.report("stopped %d", ws.StopSignal())
		case pid == m.pid:
			m.mu.Lock()
			m.pid = 0
			m.mu.Unlock()
			if ws.Signaled() {
				return 128 + int(ws.Signal())
			}
			return ws.ExitStatus()
		}
	}
}

// obey takes the outer process's orders until it closes its end: "signal N", and "continue".
func (m *monitor) obey() {
	for lines := bufio.NewScanner(m.control); lines.Scan(); {
		order, number, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.Atoi(number)
		m.mu.Lock()
		switch {
		case m.pid == 0:
		case order == "signal":
			_ = syscall.Kill(m.pid, syscall.Signal(n))
		case order == "continue":
			_ = syscall.Kill(-m.pid, syscall.SIGCONT)
		}
		m.mu.Unlock()
	}
}

// startMonitor starts the monitor. slave is the pseudoterminal, which replaces the standard descriptors that are terminals.
func startMonitor(c *Config, slave *os.File) (p *process, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(pair[0])
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that closing it ends a read
		return nil, os.NewSyscallError("fcntl", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	p = &process{control: os.NewFile(uintptr(pair[0]), "control")}
	announced, announce, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer announce.Close()
	p.announced = announced
	cmd := exec.Command(program(), c.Args...)
	cmd.Args[0] = os.Args[0]
	std := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i, f := range std {
		if isTerminal(f) {
			std[i] = slave
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std[0], std[1], std[2]
	words := []string{stageVar + "=monitor"}
	for _, f := range []*os.File{slave, theirs, announce} {
		// At a high number, so that it takes no place of a descriptor that the user passes on.
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200)
		if err != nil {
			return nil, os.NewSyscallError("dup", err)
		}
		defer unix.Close(fd)
		words = append(words, strconv.Itoa(fd))
	}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, stageVar+"=") }), strings.Join(words, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.cmd = cmd
	return p, nil
}

// process is the monitor as the outer process sees it.
type process struct {
	cmd       *exec.Cmd
	control   *os.File
	announced *os.File
}

func (p *process) order(format string, args ...any) { fmt.Fprintf(p.control, format+"\n", args...) }

// report is a line of the monitor's.
type report struct {
	what   string // stopped, exited, failed; "" when the monitor has ended
	number int
	text   string
}

// reports reads the monitor's reports until it ends.
func (p *process) reports(send func(report)) {
	for lines := bufio.NewScanner(p.control); lines.Scan(); {
		what, text, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.Atoi(text)
		send(report{what, n, text})
	}
	send(report{})
}

// address returns what the inner process announces; "" where it announces nothing.
func (p *process) address() string {
	defer p.announced.Close()
	line, _ := bufio.NewReader(io.LimitReader(p.announced, 4096)).ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}
