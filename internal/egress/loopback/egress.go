package loopback

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/egress/message"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 2 * time.Second
	maxMessage   = 1 << 20
)

// listenerFD is the descriptor of the socket in the process: the first one after the standard streams.
const listenerFD = 3

// Reports receives what egress reports. Its functions are called from another goroutine.
type Reports interface {
	DeniedByName(*message.Denial)
	Lost(mechanism string, n uint64, why string)
}

// Egress is a running egress process.
type Egress struct {
	Bundle []byte // the certificate of the session's authority, in PEM; nil: TLS isn't intercepted

	listener *net.TCPListener
	cmd      *exec.Cmd
	input    io.Closer
	ready    chan message.Message // gets the first message
	ended    chan struct{}        // closed when all messages are read

	mu     sync.Mutex
	ending bool
}

// Start starts the program with instructions, and returns when it's ready. env is the environment of toolguard's caller, who chooses the certificate
// authorities.
func Start(program string, o message.Instructions, env []string, r Reports) (_ *Egress, err error) {
	e := &Egress{ready: make(chan message.Message, 1), ended: make(chan struct{})}
	if e.listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("open the port of egress: %w", err)
	}
	o.Format, o.TCP = message.Format, []int{listenerFD}
	if err := e.run(program, &o, env, r); err != nil {
		_ = e.listener.Close()
		return nil, fmt.Errorf("start egress: %w", err)
	}
	select {
	case m := <-e.ready:
		if m.Ready {
			e.Bundle = m.Bundle
			return e, nil
		}
		err = errors.New(m.Error)
	case <-e.ended:
		err = errors.New("it ended at once")
	case <-time.After(startTimeout):
		err = fmt.Errorf("it wasn't ready within %s", startTimeout)
	}
	e.End()
	return nil, fmt.Errorf("start egress: %w", err)
}

// run starts the process, sends the instructions and reads the messages.
func (e *Egress) run(program string, o *message.Instructions, env []string, r Reports) error {
	socket, err := e.listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	e.cmd = exec.Command(program)
	e.cmd.Dir, e.cmd.Env, e.cmd.ExtraFiles, e.cmd.Stderr = "/", authorityEnv(env), []*os.File{socket}, os.Stderr
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's signals are for the command
	input, err := e.cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := e.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	e.input = input
	if err := e.cmd.Start(); err != nil {
		return err
	}
	go e.read(output, r)
	go func() { _ = json.NewEncoder(input).Encode(o) }() // a process that doesn't read is ended
	return nil
}

// authorityEnv returns the variables that name the certificate authorities for servers.
func authorityEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return !strings.HasPrefix(kv, "SSL_CERT_FILE=") && !strings.HasPrefix(kv, "SSL_CERT_DIR=")
	})
}

// read reads the messages to their end.
func (e *Egress) read(output io.Reader, r Reports) {
	defer close(e.ended)
	why := "egress ended: its connections are denied from then on"
	first := true
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			why = "egress sent an invalid message and was ended: its connections are denied from then on"
			_ = e.cmd.Process.Kill()
			break
		}
		if first {
			first = false
			e.ready <- m
			continue
		}
		if m.Lost > 0 {
			r.Lost("egress", m.Lost, "more were denied at a time than are reported")
		}
		if m.Denial != nil {
			r.DeniedByName(m.Denial)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ending {
		_ = e.listener.Close()
		r.Lost("egress", 0, why)
	}
}

// Port returns the port of the proxy.
func (e *Egress) Port() int { return e.listener.Addr().(*net.TCPAddr).Port }

// PID returns the PID of the process.
func (e *Egress) PID() int { return e.cmd.Process.Pid }

// End ends the process after it has reported everything.
func (e *Egress) End() {
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	_ = e.input.Close()
	select {
	case <-e.ended:
	case <-time.After(stopTimeout):
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	_ = e.listener.Close()
}

// Environ returns the variables that lead the command's programs to the proxy, without those that name others. NO_PROXY would lead past it, to what the
// sandbox denies.
func (e *Egress) Environ(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(strings.ToLower(kv), "=")
		return strings.HasSuffix(name, "_proxy")
	})
	at := fmt.Sprintf("http://127.0.0.1:%d", e.Port())
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env = append(env, name+"="+at, strings.ToLower(name)+"="+at)
	}
	return env
}
