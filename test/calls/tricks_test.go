//go:build linux

package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/calls/socket"
)

// trick is one of the things that an agent can do besides requests; nil: there is none of this name.
func trick(name string) func(*agentProcess, *order) *reply {
	return map[string]func(*agentProcess, *order) *reply{
		"connect": connect, "disconnect": disconnect, "raw": raw, "detached": detached, "open": open, "flood": flood, "messages": messages,
	}[name]
}

// connect opens connections, sends a text on each, and keeps them open. The reply is how many there are.
func connect(a *agentProcess, o *order) *reply {
	var all []net.Conn
	var mu sync.Mutex
	var left atomic.Int64
	left.Store(int64(o.Count))
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			wait := time.Second
			for left.Add(-1) >= 0 {
				ctx, cancel := context.WithTimeout(context.Background(), wait)
				c, err := socket.Dial(ctx, o.Address)
				cancel()
				if err != nil {
					wait = time.Millisecond
					continue
				}
				_ = c.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = c.Write([]byte(o.Text))
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connections = append(a.connections, all...)
	return ok(len(all))
}

func disconnect(a *agentProcess, _ *order) *reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.connections {
		_ = c.Close()
	}
	a.connections = nil
	return ok(nil)
}

// raw sends a text and then a number of blanks, and returns the answer as it is.
func raw(_ *agentProcess, o *order) *reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := socket.Dial(ctx, o.Address)
	if err != nil {
		return &reply{Err: err.Error()}
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	go func() {
		_, _ = c.Write([]byte(o.Text))
		for left := o.Count; left > 0; left -= 1 << 16 {
			if _, err := c.Write(bytes.Repeat([]byte(" "), min(left, 1<<16))); err != nil {
				return
			}
		}
	}()
	answer := make([]byte, 1<<16)
	n, err := c.Read(answer)
	if err != nil {
		return &reply{Err: err.Error()}
	}
	status, _ := strconv.Atoi(strings.TrimPrefix(string(answer[:min(n, 12)]), "HTTP/1.1 "))
	body, _ := json.Marshal(string(answer[:n]))
	return &reply{Status: status, Body: body}
}

// detached has a process send a request that has left the agent's session and process group, and whose parent has ended.
func detached(a *agentProcess, o *order) *reply {
	in, theirs, err := os.Pipe()
	if err != nil {
		return &reply{Err: err.Error()}
	}
	defer in.Close()
	request := *o
	request.Trick = ""
	text, err := json.Marshal(request)
	if err != nil {
		return &reply{Err: err.Error()}
	}
	self, err := os.Executable()
	if err != nil {
		return &reply{Err: err.Error()}
	}
	cmd := exec.Command("/bin/sh", "-c", `echo "$1" | setsid "$0" agent detached >&3 & exit 0`, self, string(text))
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Run()
	_ = theirs.Close()
	if err != nil {
		return &reply{Err: err.Error()}
	}
	r := new(reply)
	_ = in.SetReadDeadline(time.Now().Add(patience))
	if err := json.NewDecoder(in).Decode(r); err != nil {
		return &reply{Err: "the detached process: " + err.Error()}
	}
	return r
}

// open opens a file for reading.
func open(_ *agentProcess, o *order) *reply {
	f, err := os.Open(o.Path)
	if err != nil {
		return &reply{Status: 403, Err: err.Error()}
	}
	defer f.Close()
	if _, err := io.ReadAll(f); err != nil {
		return &reply{Status: 403, Err: err.Error()}
	}
	return ok(nil)
}

// flood submits many calls at once; @ in the body is the number of each. The reply counts the statuses.
func flood(a *agentProcess, o *order) *reply {
	counts := map[string]int{}
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range o.Count {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			text := strings.ReplaceAll(string(o.Body), "@", fmt.Sprint(i))
			r := a.do(&order{Address: o.Address, Method: o.Method, Path: o.Path, Body: json.RawMessage(text)})
			mu.Lock()
			counts[fmt.Sprint(r.Status)]++
			mu.Unlock()
		})
	}
	running.Wait()
	return ok(counts)
}

// messages sends messages over the session's descriptor that are no connections.
func messages(_ *agentProcess, o *order) *reply {
	fd, err := strconv.Atoi(strings.TrimPrefix(o.Address, socket.Descriptor))
	if err != nil {
		return &reply{Err: err.Error()}
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		return &reply{Err: err.Error()}
	}
	defer null.Close()
	sent := 0
	for range o.Count {
		for _, m := range []struct{ data, rights []byte }{
			{[]byte{0}, nil},
			{[]byte("two"), nil},
			{[]byte{0}, unix.UnixRights(int(null.Fd()))},
			{[]byte{0}, unix.UnixRights(fd)},
			{[]byte{0}, unix.UnixRights(int(null.Fd()), int(null.Fd()), int(null.Fd()))},
		} {
			for {
				err := unix.Sendmsg(fd, m.data, m.rights, nil, unix.MSG_DONTWAIT)
				if err == nil {
					sent++
				}
				if err != unix.EAGAIN {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	return ok(sent)
}
