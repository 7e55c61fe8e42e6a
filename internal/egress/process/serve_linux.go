package process

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/allowlist"
	"github.com/toolguard/toolguard/internal/egress"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
)

// maxQueued limits the denials that wait to be sent.
const maxQueued = 1024

// Serve runs egress. The descriptor is a socket to toolguard; Serve returns when toolguard closes it.
func Serve(fd int) error {
	toolguard := os.NewFile(uintptr(fd), "toolguard")
	r := &reporter{to: json.NewEncoder(toolguard), queue: make(chan message.Denial, maxQueued), done: make(chan struct{})}
	err := serve(json.NewDecoder(toolguard), r)
	if err != nil {
		_ = r.send(&message.Message{Error: err.Error()})
	}
	return err
}

func serve(toolguard *json.Decoder, r *reporter) error {
	o, err := receive(toolguard)
	if err != nil {
		return err
	}
	if intercepts(o) { // the system's authorities can't be read after confine
		if _, err := x509.SystemCertPool(); err != nil {
			return err
		}
	}
	own, err := egress.ListOwnAddresses() // confine forbids new netlink sockets
	if err != nil {
		return err
	}
	if err := confine(); err != nil {
		return err
	}
	tcp, udp, err := listeners(o)
	if err != nil {
		return err
	}
	ready := message.Message{Ready: true, Generation: o.Generation}
	ca, err := authority(o, &ready)
	if err != nil {
		return err
	}
	if err := r.send(&ready); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	changes := make(chan egress.Change)
	go func() { cancel(receivePolicies(toolguard, changes, r)) }()
	go r.sendDenials()
	go r.sendHeartbeats(ctx)
	s := &egress.Server{
		Policy: o.Policy, Generation: o.Generation, Hosts: o.Hosts, Upstream: o.Upstream, Kernel: cgroupsock.NewKernel(o.Originals, o.Names), Denied: r.queueDenial, CA: ca, Changes: changes, IsOwn: own.Has,
	}
	err = s.Serve(ctx, tcp, udp)
	close(r.queue)
	<-r.done
	return err
}

// receivePolicies passes on later policies, and replies to each, until toolguard closes the socket.
func receivePolicies(toolguard *json.Decoder, changes chan<- egress.Change, r *reporter) error {
	for {
		o, err := receive(toolguard)
		if errors.Is(err, io.EOF) {
			return context.Canceled
		} else if err != nil {
			return err
		}
		changes <- egress.Change{Policy: o.Policy, Generation: o.Generation, Hosts: o.Hosts, Done: func(err error) {
			m := message.Message{Generation: o.Generation}
			if err != nil {
				m = message.Message{Error: err.Error()}
			}
			_ = r.send(&m) // fails only if toolguard has gone
		}}
	}
}

// receive receives instructions.
func receive(toolguard *json.Decoder) (*message.Instructions, error) {
	var text json.RawMessage
	if err := toolguard.Decode(&text); err != nil {
		return nil, err
	}
	var header struct{ Format int }
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, err
	}
	if header.Format != message.Format {
		return nil, errors.New("toolguard and toolguardd are of different versions: install both of one")
	}
	var o message.Instructions
	err := json.Unmarshal(text, &o)
	if err == nil && o.Policy == nil {
		err = errors.New("the instructions have no policy")
	}
	return &o, err
}

// intercepts reports whether TLS ends here, by this policy or a later one: a session that has an authority keeps it.
func intercepts(o *message.Instructions) bool { return o.Policy.Intercepts() || len(o.Authority) > 0 }

// authority returns the session's authority, if it needs one. A new one is added to the ready message, for later processes.
func authority(o *message.Instructions, ready *message.Message) (*egress.Authority, error) {
	if !intercepts(o) {
		return nil, nil
	}
	if len(o.Authority) > 0 {
		ca := &egress.Authority{}
		return ca, json.Unmarshal(o.Authority, ca)
	}
	ca, err := egress.NewAuthority()
	if err != nil {
		return nil, err
	}
	ready.Bundle = ca.Bundle()
	ready.Authority, err = json.Marshal(ca)
	return ca, err
}

// listeners returns the inherited sockets.
func listeners(o *message.Instructions) (tcp []*net.TCPListener, udp []*net.UDPConn, err error) {
	for _, fd := range o.TCP {
		f := os.NewFile(uintptr(fd), "tcp")
		l, err := net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
		tcp = append(tcp, l.(*net.TCPListener))
	}
	for _, fd := range o.UDP {
		f := os.NewFile(uintptr(fd), "udp")
		c, err := net.FilePacketConn(f)
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
		udp = append(udp, c.(*net.UDPConn))
	}
	return tcp, udp, nil
}

// reporter sends denials without blocking egress.
type reporter struct {
	mu    sync.Mutex
	to    *json.Encoder
	queue chan message.Denial
	lost  atomic.Uint64
	done  chan struct{}
}

func (r *reporter) send(m *message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to.Encode(m)
}

func (r *reporter) queueDenial(d message.Denial) {
	select {
	case r.queue <- d:
	default:
		r.lost.Add(1)
	}
}

func (r *reporter) sendDenials() {
	defer close(r.done)
	for d := range r.queue {
		_ = r.send(&message.Message{Denial: &d, Lost: r.lost.Swap(0)}) // fails only if toolguard has gone
	}
	if n := r.lost.Swap(0); n > 0 {
		_ = r.send(&message.Message{Lost: n})
	}
}

// sendHeartbeats shows that egress doesn't hang.
func (r *reporter) sendHeartbeats(ctx context.Context) {
	for beats := time.Tick(message.HeartbeatInterval); ; {
		select {
		case <-ctx.Done():
			return
		case <-beats:
			_ = r.send(&message.Message{}) // fails only if toolguard has gone
		}
	}
}

// confine removes everything that egress doesn't need from this process: the terminal, root, files, other programs and processes.
func confine() error {
	_, _ = unix.Setsid() // fails if it leads a session already
	allowFiles()
	steps := []struct {
		doing string
		do    func() error
	}{
		{"set no_new_privs", func() error { return onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) }},
		{"leave all groups", func() error { return syscall.Setgroups(nil) }},
		{"change the group", func() error { return syscall.Setresgid(message.UserID, message.UserID, message.UserID) }},
		{"change the user", func() error { return syscall.Setresuid(message.UserID, message.UserID, message.UserID) }},
		{"end with toolguard", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"limit the memory", limitMemory},
		{"deny all files", denyFiles},
		{"deny most system calls", func() error { return allowlist.Load(allowlist.Egress) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.doing, err)
		}
	}
	return nil
}

// maxFiles is enough for all connections of a session, and as many to servers.
const maxFiles = 40000

// allowFiles raises the inherited limit of open files. If it can't, egress denies connections above the limit.
func allowFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil && l.Cur < maxFiles {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: maxFiles, Max: max(l.Max, maxFiles)})
	}
}

// maxMemory is more than the maximum number of connections needs.
const maxMemory = 1 << 30

// limitMemory prevents a session from making egress use all memory. Above half of the limit Go collects garbage more often.
func limitMemory() error {
	debug.SetMemoryLimit(maxMemory / 2)
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: maxMemory, Max: maxMemory})
}

// onAllThreads makes a system call on each thread.
func onAllThreads(nr, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(nr, a, b, c, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ENOTSUP:
		return errors.New("toolguardd was built with cgo, which starts threads that can't be restricted: build it with CGO_ENABLED=0")
	}
	return errno
}

// networkOnly is a policy that grants nothing except the network.
func networkOnly() *policy.Compiled {
	l := &policy.Layer{Authority: policy.Session}
	l.Defaults[policy.FS], l.Defaults[policy.Commands] = policy.Deny, policy.Deny
	return &policy.Compiled{Workspace: "/", Layers: []*policy.Layer{l}}
}

// denyFiles denies all files by Landlock. Without Landlock, only file permissions restrict the process.
func denyFiles() error {
	abi, _, err := landlock.Probe()
	switch {
	case errors.Is(err, landlock.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	plan, err := landlock.NewPlan(networkOnly(), abi)
	if err != nil {
		return err
	}
	defer plan.Close()
	err = plan.ApplyTo(func(ruleset int, flags uint32) error {
		return onAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), uintptr(flags), 0)
	})
	if err != nil {
		return err
	}
	if _, err := os.ReadDir("/"); !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("reading / isn't denied by Landlock: %v", err)
	}
	return nil
}
