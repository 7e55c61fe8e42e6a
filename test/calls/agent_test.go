//go:build linux

package calls

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/calls/client"
)

// agentArg is the argument with which the test binary is an agent: a process that does what a test orders, a line of JSON each.
const agentArg = "agent"

// order is what an agent does: a request, or one of its tricks.
type order struct {
	N            int
	Trick        string // "": a request
	Address      string // "": TOOLGUARD_SOCKET
	Method, Path string
	Body         json.RawMessage
	Text         string
	Count        int
}

// reply is what became of an order.
type reply struct {
	N      int
	Status int // 0: there was no answer, and Err is why
	Body   json.RawMessage
	Err    string
}

// agentMain is the main function of an agent. It ends with its input; a detached one has answered it then.
func agentMain() error {
	a := &agentProcess{clients: map[string]*client.Client{}, out: json.NewEncoder(os.Stdout)}
	in := bufio.NewReader(os.Stdin)
	var running sync.WaitGroup
	for d := json.NewDecoder(in); ; {
		o := new(order)
		switch err := d.Decode(o); {
		case errors.Is(err, io.EOF):
			if len(os.Args) > 2 { // "detached"
				running.Wait()
			}
			return nil
		case err != nil:
			return err
		}
		running.Go(func() {
			r := a.do(o)
			r.N = o.N
			a.mu.Lock()
			defer a.mu.Unlock()
			_ = a.out.Encode(r)
		})
	}
}

// agentProcess is the state of an agent.
type agentProcess struct {
	mu      sync.Mutex
	clients map[string]*client.Client
	out     *json.Encoder

	connections []net.Conn // that it keeps open
}

func (a *agentProcess) do(o *order) *reply {
	if o.Address == "" {
		o.Address = os.Getenv("TOOLGUARD_SOCKET")
	}
	if o.Trick != "" {
		return trick(o.Trick)(a, o)
	}
	a.mu.Lock()
	c := a.clients[o.Address]
	if c == nil {
		c = &client.Client{Address: o.Address}
		a.clients[o.Address] = c
	}
	a.mu.Unlock()
	return ask(c, o)
}

// ask sends a request.
func ask(c *client.Client, o *order) *reply {
	var body any
	if o.Body != nil {
		body = o.Body
	}
	r := &reply{Status: 200}
	err := c.Do(context.Background(), o.Method, o.Path, body, &r.Body)
	var status *client.StatusError
	switch {
	case errors.As(err, &status):
		return &reply{Status: status.Status, Err: status.Why}
	case err != nil:
		return &reply{Err: err.Error()}
	}
	return r
}

// agent is a running agent, seen from the test.
type agent struct {
	address string // of its requests; "": that of its session
	pid     int    // of an unconfined one
	in      *json.Encoder
	close   func() error // its input
	next    atomic.Int64
	ended   chan struct{} // its output has ended

	mu      sync.Mutex
	waiting map[int]chan *reply
}

// talk connects a test with an agent. The command isn't started yet.
func talk(t *testing.T, cmd *exec.Cmd, address string) *agent {
	t.Helper()
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	a := &agent{address: address, in: json.NewEncoder(in), close: in.Close, ended: make(chan struct{}), waiting: map[int]chan *reply{}}
	go func() {
		defer close(a.ended)
		for d := json.NewDecoder(out); ; {
			r := new(reply)
			if d.Decode(r) != nil {
				return
			}
			a.mu.Lock()
			if c := a.waiting[r.N]; c != nil {
				delete(a.waiting, r.N)
				c <- r
			}
			a.mu.Unlock()
		}
	}()
	return a
}

// begin gives an agent an order, and returns where the reply will be.
func (a *agent) begin(o order) <-chan *reply {
	o.N = int(a.next.Add(1))
	if o.Address == "" {
		o.Address = a.address
	}
	c := make(chan *reply, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[o.N] = c
	if err := a.in.Encode(o); err != nil {
		delete(a.waiting, o.N)
		c <- &reply{Err: "the agent has ended: " + err.Error()}
	}
	return c
}

// wait waits for a reply.
func (a *agent) wait(t *testing.T, c <-chan *reply) *reply {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-a.ended:
		select {
		case r := <-c:
			return r
		default:
			return &reply{Err: "the agent has ended"}
		}
	case <-time.After(patience):
		t.Fatal("no reply")
		return nil
	}
}

// do has an order carried out.
func (a *agent) do(t *testing.T, o order) *reply {
	t.Helper()
	return a.wait(t, a.begin(o))
}

// request is an order to send a request. The body is written as JSON, unless it's a text.
func request(method, path string, body any) order {
	o := order{Method: method, Path: path}
	switch b := body.(type) {
	case nil:
	case string:
		o.Body = json.RawMessage(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			panic(err)
		}
		o.Body = text
	}
	return o
}

// get sends a request whose answer must be a success.
func get[Answer any](t *testing.T, a *agent, method, path string, body any) *Answer {
	t.Helper()
	return read[Answer](t, a.do(t, request(method, path, body)))
}

func read[Answer any](t *testing.T, r *reply) *Answer {
	t.Helper()
	out := new(Answer)
	if r.Status != 200 {
		t.Fatalf("status %d: %s", r.Status, r.Err)
	}
	must(t, json.Unmarshal(r.Body, out))
	return out
}

// fails sends a request that must be answered with an error.
func fails(t *testing.T, a *agent, status int, method, path string, body any) string {
	t.Helper()
	r := a.do(t, request(method, path, body))
	if r.Status != status {
		t.Errorf("%s %s: status %d (%s%s), want %d", method, path, r.Status, r.Err, r.Body, status)
	}
	return r.Err
}

func ok(v any) *reply {
	text, err := json.Marshal(v)
	if err != nil {
		return &reply{Err: fmt.Sprint(err)}
	}
	return &reply{Status: 200, Body: text}
}
