package session

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

const (
	maxWord     = 1 << 20                // bytes
	backlog     = 4096                   // connections that wait for egress
	readyTime   = 30 * time.Second       // for egress to begin, on a machine that is busy
	heedTime    = 5 * time.Second        // to decide by another policy
	endTime     = 2 * time.Second        // and to end
	steady      = 10 * time.Second       // it has lived so long: it isn't dying in a row
	maxDeaths   = 5                      // in a row, which is told
	pause       = 100 * time.Millisecond // before it's started again, as often as it has died in a row
	maxPauses   = 10
	nameServers = 3 // MAXNS of resolv.conf(5)
)

// openPorts opens egress's ports on loopback. They stay open here, so that connections wait for it, should it be started again. Without
// IPv6 there's none for that, and the kernel refuses what would go there.
func openPorts(o *message.Instructions) (ports cgroupsock.Egress, err error) {
	four, six := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}
	for _, s := range []struct {
		family, kind int
		at           unix.Sockaddr
		port         *uint16
		list         *[]int
	}{
		{unix.AF_INET, unix.SOCK_STREAM, four, &ports.TCP4, &o.TCP},
		{unix.AF_INET, unix.SOCK_DGRAM, four, &ports.UDP4, &o.UDP},
		{unix.AF_INET6, unix.SOCK_STREAM, six, &ports.TCP6, &o.TCP},
		{unix.AF_INET6, unix.SOCK_DGRAM, six, &ports.UDP6, &o.UDP},
	} {
		fd, port, err := listenAt(s.family, s.kind, s.at)
		if s.family == unix.AF_INET6 && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
			continue
		}
		if err != nil {
			closePorts(o)
			return cgroupsock.Egress{}, err
		}
		*s.port, *s.list = port, append(*s.list, fd)
		ports.Sockets = append(ports.Sockets, fd)
	}
	return ports, nil
}

func listenAt(family, kind int, at unix.Sockaddr) (fd int, port uint16, err error) {
	if fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, 0, os.NewSyscallError("socket", err)
	}
	err = os.NewSyscallError("bind", unix.Bind(fd, at))
	if err == nil && kind == unix.SOCK_STREAM {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, err
	}
	switch a := at.(type) {
	case *unix.SockaddrInet4:
		port = uint16(a.Port)
	case *unix.SockaddrInet6:
		port = uint16(a.Port)
	}
	return fd, port, nil
}

func closePorts(o *message.Instructions) {
	for _, fd := range slices.Concat(o.TCP, o.UDP) {
		_ = unix.Close(fd)
	}
	o.TCP, o.UDP = nil, nil
}

// resolvers are the name servers that a resolv.conf(5) names; without any the machine itself is one.
func resolvers(file string) ([]netip.AddrPort, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var list []netip.AddrPort
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || len(list) == nameServers {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			list = append(list, netip.AddrPortFrom(a, 53))
		}
	}
	if len(list) == 0 {
		list = append(list, netip.MustParseAddrPort("127.0.0.1:53"))
	}
	return list, nil
}

// egressProcess is egress in a process of its own, since it reads what hostile programs and servers say: it has no privileges and
// no files. Should it die, the programs in the kernel let nothing by that would have come to it, and it's started again.
type egressProcess struct {
	program int      // its descriptor
	place   *os.File // the network namespace that it's in; nil: this process's
	denials *Collector
	begun   chan beginning
	begins  bool          // one was ready
	over    chan struct{} // closed when there won't be another one

	mu      sync.Mutex
	mandate message.Instructions
	decides uint32        // the generation of the policy by which it decides
	heeds   chan struct{} // closed when that changes
	pidfd   int           // -1: there's none
	socket  *os.File      // to it
	listens *os.File      // the same, when it has been told its mandate
	ending  bool
}

// beginning is what came of the first start.
type beginning struct {
	bundle    []byte // the certificate of the session's authority, where it has made one
	authority []byte // with its key
	err       error
}

// startEgress begins to start egress, from the program that is open. ready says what came of it.
func startEgress(program int, place *os.File, o message.Instructions, d *Collector) *egressProcess {
	p := &egressProcess{
		program: program, place: place, mandate: o, denials: d, begun: make(chan beginning, 1), over: make(chan struct{}),
		heeds: make(chan struct{}), pidfd: -1,
	}
	forkexec.OnThread(p.supervise) // one of its own, with which the kernel kills it
	return p
}

// enterNetwork puts this thread into a network namespace.
func enterNetwork(place *os.File) error {
	if place == nil {
		return nil
	}
	return os.NewSyscallError("setns", unix.Setns(int(place.Fd()), unix.CLONE_NEWNET))
}

func (p *egressProcess) ready() beginning {
	select {
	case b := <-p.begun:
		return b
	case <-time.After(readyTime):
		return beginning{err: errors.New("it doesn't say that it's ready")}
	}
}

// supervise starts egress until it's told to end it.
func (p *egressProcess) supervise() {
	defer close(p.over)
	defer closePorts(&p.mandate)
	if err := enterNetwork(p.place); err != nil {
		p.say(beginning{err: err})
		return
	}
	for deaths := 1; ; deaths++ {
		began := time.Now()
		err := p.live()
		p.say(beginning{err: err}) // if it has never been ready
		if p.isEnding() {
			return
		}
		if time.Since(began) > steady {
			deaths = 1
		}
		p.denials.Missed("egress", fmt.Sprintf("egress died (%v) and is started again", err))
		if deaths == maxDeaths {
			p.denials.Warn("egress has died %d times in a row (%v): what depends on names may be refused, or wait", deaths, err)
		}
		time.Sleep(time.Duration(min(deaths-1, maxPauses)) * pause)
	}
}

func (p *egressProcess) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// say says what came of the first start.
func (p *egressProcess) say(b beginning) {
	select {
	case p.begun <- b:
	default:
	}
}

// live starts egress once and hears it until it has ended.
func (p *egressProcess) live() error {
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
func (p *egressProcess) reap() {
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

// spawn starts the process, which is to be told a mandate; without an error and a socket it's too late for that.
func (p *egressProcess) spawn() (*os.File, message.Instructions, error) {
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
		Env:  authorityEnv(os.Environ()),
		Keep: slices.Concat(p.mandate.TCP, p.mandate.UDP, []int{p.mandate.Originals, p.mandate.Names, pair[1]}),
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
	return socket, p.mandate, nil
}

// authorityEnv is what of an environment says by which authorities servers are verified: whoever starts the session decides that.
func authorityEnv(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		return !strings.HasPrefix(kv, "SSL_CERT_FILE=") && !strings.HasPrefix(kv, "SSL_CERT_DIR=")
	})
}

// hear takes in what egress says, until it says no more. What that is isn't believed more than what a session says, but for the
// first word of the first one: the authority that is in there is the session's to its end. One that is silent for long is ended.
func (p *egressProcess) hear(socket *os.File) error {
	silent := time.AfterFunc(message.Silence, p.kill)
	defer silent.Stop()
	lines := bufio.NewScanner(socket)
	lines.Buffer(nil, maxWord)
	for lines.Scan() {
		silent.Reset(message.Silence)
		var w message.Message
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return fmt.Errorf("it says something else than it should: %w", err)
		}
		p.heard(&w)
		if w.Failed != "" {
			return errors.New(w.Failed)
		}
		if w.Lost > 0 {
			p.denials.Lost("egress", w.Lost)
		}
		if w.Denial != nil {
			p.denials.DeniedByName(w.Denial)
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return err
	case !silent.Stop():
		return errSilent
	}
	return errEnded
}

// heard takes in by which policy it decides, and whether it's ready.
func (p *egressProcess) heard(w *message.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.Decides != 0 {
		p.decides = w.Decides
		close(p.heeds)
		p.heeds = make(chan struct{})
	}
	if !w.Ready || p.begins {
		return
	}
	p.begins = true
	if p.mandate.Authority == nil {
		p.mandate.Authority = w.Authority
	}
	p.say(beginning{bundle: w.Bundle, authority: w.Authority})
}

// instructed is for a process that has been told its mandate, by the policy of a generation.
func (p *egressProcess) instructed(socket *os.File, generation uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listens = socket
	if p.mandate.Generation != generation {
		p.instruct()
	}
}

// instruct tells the process of another policy. It's called with the lock held.
func (p *egressProcess) instruct() {
	if socket := p.listens; socket != nil {
		p.readHosts()
		o := message.Instructions{Format: message.Format, Generation: p.mandate.Generation, Policy: p.mandate.Policy, Hosts: p.mandate.Hosts}
		go func() { _ = json.NewEncoder(socket).Encode(&o) }() // it may read slowly, or not at all; then it's ended
	}
}

// reload has it decide by another policy. One that doesn't, in time, is ended; whatever is started then does. Where that doesn't
// either, in time, it's ended as well, and nobody waits for the next one, which decides by the former policy.
func (p *egressProcess) reload(generation uint32, c *policy.Compiled) error {
	p.mu.Lock()
	former, by := p.mandate.Generation, p.mandate.Policy
	p.mandate.Generation, p.mandate.Policy = generation, c
	p.instruct()
	p.mu.Unlock()
	if p.decidesBy(generation, heedTime) {
		return nil
	}
	p.kill()
	if p.decidesBy(generation, readyTime) {
		return nil
	}
	p.mu.Lock()
	p.mandate.Generation, p.mandate.Policy = former, by
	p.mu.Unlock()
	p.kill()
	return errors.New("egress takes no other policy")
}

// decidesBy waits until it does.
func (p *egressProcess) decidesBy(generation uint32, most time.Duration) bool {
	for late := time.After(most); ; {
		p.mu.Lock()
		decides, heeds := p.decides, p.heeds
		p.mu.Unlock()
		if decides == generation {
			return true
		}
		select {
		case <-heeds:
		case <-late:
			return false
		}
	}
}

// kill ends the process that runs.
func (p *egressProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd >= 0 {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
}

// end ends egress, when it has told all it has to tell.
func (p *egressProcess) end() {
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
