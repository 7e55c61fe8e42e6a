package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/proc"
)

// auditDenials reads the kernel's audit records for the sessions under Landlock whose client may not. They share one reader, which enables
// auditing while it's open.
type auditDenials struct {
	why string // why no client can have them; "": they can

	mu      sync.Mutex
	reader  *kernelaudit.Reader // nil: no client has subscribed recently
	idle    *time.Timer         // closes it
	clients map[int]int         // the toolguards that subscribe, by their numbers, and how often each does
}

// idleTime is how long the reader stays open without a subscriber: opening and closing one takes the kernel some 25 ms, which each of a
// series of commands would wait for.
const idleTime = 5 * time.Second

// probe checks that records arrive. It also restores auditing after a toolguardd that was killed.
func (d *auditDenials) probe() error {
	err := landlock.Audited()
	if err == nil {
		if _, err = d.subscribe(0); err == nil {
			d.unsubscribe(0)
			err = d.close()
		}
	}
	if err != nil {
		d.why = err.Error()
	}
	return err
}

// subscribe opens the reader for the first client.
func (d *auditDenials) subscribe(pid int) (*kernelaudit.Reader, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reader == nil {
		r, err := kernelaudit.OpenFirst()
		if err != nil {
			return nil, err
		}
		r.Listen()
		if err := r.Prove(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		d.reader = r
	}
	d.clients[pid]++
	return d.reader, nil
}

func (d *auditDenials) unsubscribe(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients[pid]--; d.clients[pid] == 0 {
		delete(d.clients, pid)
	}
	if len(d.clients) == 0 {
		d.idle.Reset(idleTime)
	}
}

// close closes the reader, which restores auditing, unless there are subscribers.
func (d *auditDenials) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clients) > 0 || d.reader == nil {
		return nil
	}
	r := d.reader
	d.reader = nil
	return r.Close()
}

// closeIdle is close for a reader without subscribers.
func (d *Daemon) closeIdle() {
	if err := d.denials.close(); err != nil {
		d.log("auditing couldn't be restored: %v", err)
	}
}

// confines reports whether a process belongs to the session of a client that subscribes.
func (d *auditDenials) confines(pid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clients) == 0 {
		return false
	}
	within, known := proc.DescendsFrom(pid, func(parent int) bool { return d.clients[parent] > 0 })
	return within || !known
}

// getDenials reports what Landlock denies in the session that the client is about to start, on a connection of its own as notices does.
func (d *Daemon) getDenials(r *request) (any, error) {
	if d.denials.why != "" {
		return nil, reject(503, "%s", d.denials.why)
	}
	p := r.peer
	reader, err := d.denials.subscribe(p.PID())
	if err != nil {
		return nil, reject(503, "%v", err)
	}
	c, _, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		err = p.Process.Alive() // while it lives, no other process has its PID
	}
	if err != nil {
		d.denials.unsubscribe(p.PID())
		return nil, err
	}
	d.streams.Go(func() {
		defer d.denials.unsubscribe(p.PID())
		if err := d.reportDenials(c, reader, p); err != nil {
			d.log("the denials of process %d of user %d aren't reported: %v", p.PID(), p.UID, err)
		}
	})
	return nil, nil
}

// reportDenials writes a client's denials until the client has disconnected or, after it has reported the end of the command, all of them.
func (d *Daemon) reportDenials(c net.Conn, reader *kernelaudit.Reader, p *peer.Peer) error {
	defer c.Close()
	begin := api.Begin{Name: fmt.Sprintf("%015x", newNumber()>>4), PID: p.PID()}
	out := newOutbox(c)
	w, err := reader.Watch(kernelaudit.Session{
		Name:  begin.Name,
		Owner: &kernelaudit.Owner{UID: p.UID, PID: p.PID(), Runs: runsUnder(p.PID())},
	}, func(k kernelaudit.Denial) {
		if k.PID != p.PID() { // toolguard's own kill(-1), which ends the session, is denied for every other process
			out.deny(&k)
		}
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	_ = write(c, []byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\n\r\n"))
	out.put(api.Record{Begin: &begin})
	gone, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer cancel()
		if n, _ := c.Read(make([]byte, 1)); n == 1 {
			close(ended)
			_, _ = c.Read(make([]byte, 1))
		}
	}()
	go out.run()
	defer out.end()
	select {
	case <-d.stopping:
		_ = c.Close() // a client that doesn't read would keep auditing enabled
	case <-gone.Done():
	case <-ended:
		t, err := w.Finish(gone)
		if err != nil {
			return err
		}
		out.last(t)
	}
	return nil
}

// outbox is the queue of a client's denials. The reader serves all clients, so it doesn't wait: denials that exceed the queue are counted.
type outbox struct {
	conn net.Conn
	sent chan struct{} // closed when nothing more is written

	mu      sync.Mutex
	filled  *sync.Cond
	waiting []byte
	denial  *kernelaudit.Denial // the last one, with which equal ones are counted; nil: none waits
	times   uint64
	dropped uint64
	ended   bool
}

func newOutbox(c net.Conn) *outbox {
	o := &outbox{conn: c, sent: make(chan struct{})}
	o.filled = sync.NewCond(&o.mu)
	return o
}

// deny adds a denial.
func (o *outbox) deny(k *kernelaudit.Denial) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.denial == nil || !o.denial.Alike(k) {
		o.flushDenial()
		o.denial = k
	}
	o.times++
	o.filled.Signal()
}

// flushDenial adds the line of the waiting denial, unless the queue is full. mu is locked.
func (o *outbox) flushDenial() {
	if o.denial == nil {
		return
	}
	if len(o.waiting) < waitingEvents {
		o.add(api.Record{Denial: o.denial, Times: o.times})
	} else {
		o.dropped += o.times
	}
	o.denial, o.times = nil, 0
}

func (o *outbox) add(r api.Record) {
	line, _ := json.Marshal(r) // everything in it can be
	o.waiting = append(append(o.waiting, line...), '\n')
}

// put adds a record that is never dropped.
func (o *outbox) put(r api.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(r)
	o.filled.Signal()
}

// last adds the totals, with the number of dropped denials.
func (o *outbox) last(t kernelaudit.Totals) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushDenial()
	if o.dropped > 0 {
		t.Delivered, t.Missing = t.Delivered-o.dropped, t.Missing+o.dropped
		t.Why = "toolguard read the denials from toolguardd too slowly"
	}
	o.add(api.Record{Totals: &t})
}

// end returns when everything has been written, or writing has failed.
func (o *outbox) end() {
	o.mu.Lock()
	o.ended = true
	o.filled.Signal()
	o.mu.Unlock()
	<-o.sent
}

// run writes the queue.
func (o *outbox) run() {
	defer close(o.sent)
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && o.denial == nil && !o.ended {
			o.filled.Wait()
		}
		if len(o.waiting) == 0 {
			o.flushDenial()
		}
		lines := o.waiting
		o.waiting = nil
		o.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		if write(o.conn, lines) != nil {
			_ = o.conn.Close() // the client notices that the answer is incomplete
			return
		}
	}
}

// rememberedTime is how long a process's ancestry is cached. Its PID isn't reused so soon.
const rememberedTime = 100 * time.Millisecond

// runsUnder reports whether processes descend from one. Calls of the returned function may not overlap.
func runsUnder(ancestor int) func(pid int) (runs, known bool) {
	type answer struct{ runs, known bool }
	var since time.Time
	answers := map[int]answer{}
	return func(pid int) (bool, bool) {
		if time.Since(since) > rememberedTime {
			since = time.Now()
			clear(answers)
		}
		a, ok := answers[pid]
		if !ok {
			a.runs, a.known = proc.DescendsFrom(pid, func(parent int) bool { return parent == ancestor })
			answers[pid] = a
		}
		return a.runs, a.known
	}
}
