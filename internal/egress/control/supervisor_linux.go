package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

const (
	maxMessage    = 1 << 20                // bytes
	backlog       = 4096                   // waiting connections
	startTimeout  = 30 * time.Second       // for egress to start on a busy machine
	reloadTimeout = 5 * time.Second        // for egress to confirm a policy
	stopTimeout   = 2 * time.Second        // for egress to end
	stableAfter   = 10 * time.Second       // a process that has run this long ends a series of crashes
	maxCrashes    = 5                      // in a row, then it's reported
	restartPause  = 100 * time.Millisecond // before a restart, times the number of crashes in a row
	maxPauses     = 10
	nameServers   = 3 // MAXNS of resolv.conf(5)
)

// Reports are the callbacks of a Supervisor.
type Reports struct {
	Denied func(*message.Denial)
	Lost   func(n uint64, why string) // n denials are unreported; 0: an unknown number
	Warn   func(format string, args ...any)
}

// Supervisor runs egress in a process of its own. See the package comment.
type Supervisor struct {
	program   int      // the descriptor of egress's program
	namespace *os.File // the network namespace of egress; nil: this process's
	reports   Reports
	started   chan Started
	wasReady  bool          // a process has been ready
	done      chan struct{} // closed after the last process

	mu                sync.Mutex
	instructions      message.Instructions
	generation        uint32        // of the policy that egress has confirmed
	generationChanged chan struct{} // closed when generation changes
	pidfd             int           // of egress; -1: none runs
	socket            *os.File      // to egress
	instructedSocket  *os.File      // socket, after the instructions are sent
	ending            bool
}

// Started is the result of the first start.
type Started struct {
	Bundle    []byte // the certificate of the session's authority, if there is one
	Authority []byte // with its key
	Err       error
}

// Start starts egress from an open program. Ready returns the result.
func Start(program int, namespace *os.File, o message.Instructions, r Reports) *Supervisor {
	p := &Supervisor{
		program: program, namespace: namespace, instructions: o, reports: r, started: make(chan Started, 1), done: make(chan struct{}),
		generationChanged: make(chan struct{}), pidfd: -1,
	}
	forkexec.OnThread(p.supervise) // the kernel kills egress with this thread
	return p
}

// Ready waits for the first start and returns its result.
func (p *Supervisor) Ready() Started {
	select {
	case b := <-p.started:
		return b
	case <-time.After(startTimeout):
		return Started{Err: errors.New("egress isn't ready in time")}
	}
}

// supervise starts egress again and again until End.
func (p *Supervisor) supervise() {
	defer close(p.done)
	defer closePorts(&p.instructions)
	if err := EnterNamespace(p.namespace); err != nil {
		p.reportStart(Started{Err: err})
		return
	}
	for crashes := 1; ; crashes++ {
		started := time.Now()
		err := p.runOnce()
		p.reportStart(Started{Err: err}) // ignored if egress was ready
		if p.isEnding() {
			return
		}
		if time.Since(started) > stableAfter {
			crashes = 1
		}
		p.reports.Lost(0, fmt.Sprintf("egress died (%v) and is restarted", err))
		if crashes == maxCrashes {
			p.reports.Warn("egress has died %d times in a row (%v): connections by name may fail or wait", crashes, err)
		}
		time.Sleep(time.Duration(min(crashes-1, maxPauses)) * restartPause)
	}
}

func (p *Supervisor) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// reportStart passes on the result of the first start.
func (p *Supervisor) reportStart(b Started) {
	select {
	case p.started <- b:
	default:
	}
}

// runOnce starts egress and reads its messages until it has ended.
func (p *Supervisor) runOnce() error {
	socket, o, err := p.spawn()
	if err != nil || socket == nil {
		return err
	}
	err = json.NewEncoder(socket).Encode(&o)
	if err == nil {
		p.finishStart(socket, o.Generation)
		err = p.readMessages(socket)
	}
	p.reap()
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) { // before it had read its instructions
		return errEnded
	}
	return err
}

// reap kills the process if it runs, and waits for it. The session's wait for any child may have reaped it before.
func (p *Supervisor) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.socket.Close()
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	for unix.Waitid(unix.P_PIDFD, p.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
	}
	_ = unix.Close(p.pidfd)
	p.pidfd, p.socket, p.instructedSocket, p.generation = -1, nil, nil, 0
}

var (
	errEnded = errors.New("it ended")
	errHung  = fmt.Errorf("it sent nothing for %s", message.HeartbeatTimeout)
)

// spawn starts the process. It returns no error and no socket after End.
func (p *Supervisor) spawn() (*os.File, message.Instructions, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return nil, message.Instructions{}, nil
	}
	p.readHosts()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, message.Instructions{}, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[1])
	socket := os.NewFile(uintptr(pair[0]), "egress")
	child := forkexec.Command{
		Path: "/proc/self/fd/" + strconv.Itoa(p.program), Argv: []string{toolguardd, "egress", strconv.Itoa(pair[1])},
		Env:     authorityEnv(os.Environ()),
		Inherit: slices.Concat(p.instructions.TCP, p.instructions.UDP, []int{p.instructions.Originals, p.instructions.Names, pair[1]}),
	}
	pid, err := child.Start()
	if err == nil {
		p.pidfd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		_ = socket.Close()
		return nil, message.Instructions{}, err
	}
	p.socket = socket
	return socket, p.instructions, nil
}

// authorityEnv returns the variables that name the certificate authorities for servers: the user who starts the session chooses them.
func authorityEnv(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		return !strings.HasPrefix(kv, "SSL_CERT_FILE=") && !strings.HasPrefix(kv, "SSL_CERT_DIR=")
	})
}

// kill kills the process, if one runs.
func (p *Supervisor) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd >= 0 {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
}

// End ends egress after it has reported everything.
func (p *Supervisor) End() {
	p.mu.Lock()
	p.ending = true
	if p.socket != nil {
		_ = unix.Shutdown(int(p.socket.Fd()), unix.SHUT_WR)
	}
	p.mu.Unlock()
	select {
	case <-p.done:
		return
	case <-time.After(stopTimeout):
	}
	p.kill()
	<-p.done
}

// readHosts updates the hosts in the instructions. The caller has locked mu.
func (p *Supervisor) readHosts() {
	hosts, err := HostsFor(p.instructions.Policy)
	if err != nil {
		p.reports.Lost(0, err.Error())
	}
	p.instructions.Hosts = hosts
}
