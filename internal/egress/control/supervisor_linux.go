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
	maxWord     = 1 << 20                // bytes
	backlog     = 4096                   // connections that wait for egress
	readyTime   = 30 * time.Second       // for egress to begin, on a machine that is busy
	heedTime    = 5 * time.Second        // to decide by another policy
	endTime     = 2 * time.Second        // and to end
	steady      = 10 * time.Second       // it has lived so long: it isn't dying in a row
	maxDeaths   = 5                      // in a row, which is reported
	pause       = 100 * time.Millisecond // before it's started again, as often as it has died in a row
	maxPauses   = 10
	nameServers = 3 // MAXNS of resolv.conf(5)
)

// Reports are what becomes of what egress reports, and of what happens to it.
type Reports struct {
	Denied func(*message.Denial)
	Lost   func(n uint64, why string) // so many denials haven't been reported; 0: it isn't known how many
	Warn   func(format string, args ...any)
}

// Supervisor is egress in a process of its own, since it reads what hostile programs and servers say: it has no privileges and
// no files. Should it die, the programs in the kernel let nothing by that would have come to it, and it's started again.
type Supervisor struct {
	program int      // its descriptor
	place   *os.File // the network namespace that it's in; nil: this process's
	reports Reports
	begun   chan Started
	begins  bool          // one was ready
	over    chan struct{} // closed when there won't be another one

	mu           sync.Mutex
	instructions message.Instructions
	decides      uint32        // the generation of the policy by which it decides
	heeds        chan struct{} // closed when that changes
	pidfd        int           // -1: there's none
	socket       *os.File      // to it
	listens      *os.File      // the same, when it has its instructions
	ending       bool
}

// Started is what came of the first start.
type Started struct {
	Bundle    []byte // the certificate of the session's authority, where it has made one
	Authority []byte // with its key
	Err       error
}

// Start begins to start egress, from the program that is open. Ready says what came of it.
func Start(program int, place *os.File, o message.Instructions, r Reports) *Supervisor {
	p := &Supervisor{
		program: program, place: place, instructions: o, reports: r, begun: make(chan Started, 1), over: make(chan struct{}),
		heeds: make(chan struct{}), pidfd: -1,
	}
	forkexec.OnThread(p.supervise) // one of its own, with which the kernel kills it
	return p
}

// Ready waits for what comes of the first start.
func (p *Supervisor) Ready() Started {
	select {
	case b := <-p.begun:
		return b
	case <-time.After(readyTime):
		return Started{Err: errors.New("it doesn't say that it's ready")}
	}
}

// supervise starts egress until it is to end.
func (p *Supervisor) supervise() {
	defer close(p.over)
	defer closePorts(&p.instructions)
	if err := EnterNetwork(p.place); err != nil {
		p.say(Started{Err: err})
		return
	}
	for deaths := 1; ; deaths++ {
		began := time.Now()
		err := p.live()
		p.say(Started{Err: err}) // if it has never been ready
		if p.isEnding() {
			return
		}
		if time.Since(began) > steady {
			deaths = 1
		}
		p.reports.Lost(0, fmt.Sprintf("egress died (%v) and is started again", err))
		if deaths == maxDeaths {
			p.reports.Warn("egress has died %d times in a row (%v): what depends on names may be refused, or wait", deaths, err)
		}
		time.Sleep(time.Duration(min(deaths-1, maxPauses)) * pause)
	}
}

func (p *Supervisor) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// say says what came of the first start.
func (p *Supervisor) say(b Started) {
	select {
	case p.begun <- b:
	default:
	}
}

// live starts egress once and hears it until it has ended.
func (p *Supervisor) live() error {
	socket, o, err := p.spawn()
	if err != nil || socket == nil {
		return err
	}
	err = json.NewEncoder(socket).Encode(&o)
	if err == nil {
		p.instructed(socket, o.Generation)
		err = p.hear(socket)
	}
	p.reap()
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) { // before it had read all
		return errEnded
	}
	return err
}

// reap ends the process if it still runs, and waits for it, unless that was done where the command is waited for.
func (p *Supervisor) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.socket.Close()
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	for unix.Waitid(unix.P_PIDFD, p.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
	}
	_ = unix.Close(p.pidfd)
	p.pidfd, p.socket, p.listens, p.decides = -1, nil, nil, 0
}

var (
	errEnded  = errors.New("it ended")
	errSilent = fmt.Errorf("it had been silent for %s", message.Silence)
)

// spawn starts the process, which then gets its instructions; without an error and a socket it's too late for that.
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

// authorityEnv is what of an environment says by which authorities servers are verified: the user who starts the session decides that.
func authorityEnv(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		return !strings.HasPrefix(kv, "SSL_CERT_FILE=") && !strings.HasPrefix(kv, "SSL_CERT_DIR=")
	})
}

// kill ends the process that runs.
func (p *Supervisor) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd >= 0 {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
}

// End ends egress, when it has reported everything.
func (p *Supervisor) End() {
	p.mu.Lock()
	p.ending = true
	if p.socket != nil {
		_ = unix.Shutdown(int(p.socket.Fd()), unix.SHUT_WR)
	}
	p.mu.Unlock()
	select {
	case <-p.over:
		return
	case <-time.After(endTime):
	}
	p.kill()
	<-p.over
}
