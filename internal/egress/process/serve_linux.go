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

// maxUntold bounds what waits to be reported.
const maxUntold = 1024

// Serve is all that the process does: the descriptor gives it its instructions, and it ends when nobody is at the other end any more.
func Serve(fd int) error {
	toolguard := os.NewFile(uintptr(fd), "toolguard")
	t := &telling{to: json.NewEncoder(toolguard), queue: make(chan message.Denial, maxUntold), done: make(chan struct{})}
	err := serve(json.NewDecoder(toolguard), t)
	if err != nil {
		_ = t.say(&message.Message{Failed: err.Error()})
	}
	return err
}

func serve(toolguard *json.Decoder, t *telling) error {
	o, err := hear(toolguard)
	if err != nil {
		return err
	}
	if intercepts(o) { // servers are verified, and the system's authorities can't be read any more when the first is
		if _, err := x509.SystemCertPool(); err != nil {
			return err
		}
	}
	own, err := egress.ListOwnAddresses() // while it may still open sockets for that
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
	ready := message.Message{Ready: true, Decides: o.Generation}
	ca, err := authority(o, &ready)
	if err != nil {
		return err
	}
	if err := t.say(&ready); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	changes := make(chan egress.Change)
	go func() { cancel(heed(toolguard, changes, t)) }()
	go t.tell()
	go t.beat(ctx)
	s := &egress.Server{
		Policy: o.Policy, Generation: o.Generation, Hosts: o.Hosts, Upstream: o.Upstream, Kernel: cgroupsock.NewKernel(o.Originals, o.Names), Tell: t.add, CA: ca, Changes: changes, Own: own.Has,
	}
	err = s.Serve(ctx, tcp, udp)
	close(t.queue)
	<-t.done
	return err
}

// heed takes further mandates until nobody is there any more. Whoever gives one waits for what is said to it.
func heed(toolguard *json.Decoder, changes chan<- egress.Change, t *telling) error {
	for {
		o, err := hear(toolguard)
		if errors.Is(err, io.EOF) {
			return context.Canceled
		} else if err != nil {
			return err
		}
		changes <- egress.Change{Policy: o.Policy, Generation: o.Generation, Hosts: o.Hosts, Done: func(err error) {
			w := message.Message{Decides: o.Generation}
			if err != nil {
				w = message.Message{Failed: err.Error()}
			}
			_ = t.say(&w) // if it fails nobody is there any more
		}}
	}
}

// hear takes a mandate.
func hear(toolguard *json.Decoder) (*message.Instructions, error) {
	var text json.RawMessage
	if err := toolguard.Decode(&text); err != nil {
		return nil, err
	}
	var said struct{ Format int }
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	if said.Format != message.Format {
		return nil, errors.New("toolguard and toolguardd are of different versions: install both of one")
	}
	var o message.Instructions
	err := json.Unmarshal(text, &o)
	if err == nil && o.Policy == nil {
		err = errors.New("there's no policy in the mandate")
	}
	return &o, err
}

// intercepts says whether TLS is ended here, by this policy or a later one: a session that has an authority keeps it.
func intercepts(o *message.Instructions) bool { return o.Policy.Intercepts() || len(o.Authority) > 0 }

// authority is the session's, where it needs one. One that is made here is reported, for those who come after.
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

// listeners are those whose descriptors were handed over.
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

// telling reports denials without keeping egress waiting.
type telling struct {
	mu    sync.Mutex
	to    *json.Encoder
	queue chan message.Denial
	lost  atomic.Uint64
	done  chan struct{}
}

func (t *telling) say(w *message.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to.Encode(w)
}

func (t *telling) add(d message.Denial) {
	select {
	case t.queue <- d:
	default:
		t.lost.Add(1)
	}
}

func (t *telling) tell() {
	defer close(t.done)
	for d := range t.queue {
		_ = t.say(&message.Message{Denial: &d, Lost: t.lost.Swap(0)}) // if it fails nobody is there any more
	}
	if n := t.lost.Swap(0); n > 0 {
		_ = t.say(&message.Message{Lost: n})
	}
}

// beat shows that egress doesn't hang.
func (t *telling) beat(ctx context.Context) {
	for beats := time.Tick(message.Beat); ; {
		select {
		case <-ctx.Done():
			return
		case <-beats:
			_ = t.say(&message.Message{}) // if it fails nobody is there any more
		}
	}
}

// confine takes everything from this process that egress needs not: the terminal, root, all files, other programs, other processes.
func confine() error {
	_, _ = unix.Setsid() // fails where it is one already
	allowFiles()
	steps := []struct {
		doing string
		do    func() error
	}{
		{"set no_new_privs", func() error { return onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) }},
		{"leave all groups", func() error { return syscall.Setgroups(nil) }},
		{"change the group", func() error { return syscall.Setresgid(message.Nobody, message.Nobody, message.Nobody) }},
		{"change the user", func() error { return syscall.Setresuid(message.Nobody, message.Nobody, message.Nobody) }},
		{"end with toolguard", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"bound its memory", boundMemory},
		{"give all files up", giveFilesUp},
		{"give most system calls up", func() error { return allowlist.Load(allowlist.Egress) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.doing, err)
		}
	}
	return nil
}

// maxFiles is enough for all the connections that egress takes, each with the one to its server.
const maxFiles = 40000

// allowFiles raises the limit of open files, which is who started toolguard's. Where it stays, the connections above it are denied.
func allowFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil && l.Cur < maxFiles {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: maxFiles, Max: max(l.Max, maxFiles)})
	}
}

// maxMemory is more than the most connections that it takes need.
const maxMemory = 1 << 30

// boundMemory keeps a session from having egress take the machine's: where half of it is gone, memory is looked for harder.
func boundMemory() error {
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

// alone is a policy for a process that needs nothing but the network.
func alone() *policy.Compiled {
	l := &policy.Layer{Authority: policy.Session}
	l.Defaults[policy.FS], l.Defaults[policy.Commands] = policy.Deny, policy.Deny
	return &policy.Compiled{Workspace: "/", Layers: []*policy.Layer{l}}
}

// giveFilesUp leaves it to the user's permissions where there's no Landlock.
func giveFilesUp() error {
	abi, _, err := landlock.Probe()
	switch {
	case errors.Is(err, landlock.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	plan, err := landlock.NewPlan(alone(), abi)
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
		return fmt.Errorf("reading / is refused by nobody: %v", err)
	}
	return nil
}
