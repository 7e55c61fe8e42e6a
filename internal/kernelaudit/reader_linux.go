package kernelaudit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnavailable is wrapped by what Open returns when refusals can't be read on this machine, by this process. The
// message returns what is missing.
var ErrUnavailable = errors.New("no refusals can be read from the kernel")

var errQuiet = errors.New("nothing came")

// proofTime is how long the kernel may take to send the first record. It normally takes some 100 µs.
const proofTime = time.Second

// quietTime is how long nothing at all may come from the kernel while another mark is waited for, and how long anything else
// may come before the first.
const quietTime = 3 * time.Second

// settleTime is how long the records of one system call may be apart before what came is handed over as it is: without its caller, and
// so to nobody where it's the first of a session. A thread may be kept from ending its call by whatever else a busy machine does.
const settleTime = 2 * time.Second

// recentTime is how old what the kernel said of itself may be where it's only about putting back what was changed.
const recentTime = 50 * time.Millisecond

// maxRemembered bounds what is kept of processes and domains that may be no session's at all.
const maxRemembered = 4096

// Reader receives the kernel's records, and keeps auditing on until it is closed.
type Reader struct {
	socket int      // where the records come
	log    *os.File // the same, when it's listened to: the runtime's poller, which serves it, isn't set up before
	hold   *hold
	done   chan struct{} // closed when nothing is read any more

	proven   atomic.Bool // a mark came back
	ending   atomic.Bool // nothing is to be read any more
	reading  sync.Once
	closing  sync.Once
	ordering sync.Mutex // one question at a time on control
	control  int
	recent   status    // the kernel's last answer
	asked    time.Time // when it came

	mu       sync.Mutex // everything below; held while records are delivered
	asm      *assembler
	watches  []*Watch
	starters map[uint32]int    // audit session: the process that started it
	makers   map[uint64]domain // who made a Landlock domain
	marks    map[string]chan struct{}
	came     uint64    // records
	overflow uint64    // times that the socket's buffer was full
	unread   uint64    // records that couldn't be parsed
	off      time.Time // when auditing was last switched off
	fields   []field
}

// Open subscribes: from now on the kernel keeps its records for this reader. Processes must be forked after it to have complete
// records. Prove, and the end of a Watch, return whether any arrive.
func Open() (*Reader, error) { return open(stateDir) }

func open(state string) (_ *Reader, err error) {
	r := &Reader{
		control: -1, socket: -1, done: make(chan struct{}),
		starters: map[uint32]int{}, makers: map[uint64]domain{}, marks: map[string]chan struct{}{},
	}
	r.asm = newAssembler(r.dispatch)
	defer func() {
		if err != nil {
			r.shut()
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}()
	if err := r.connect(state); err != nil {
		return nil, err
	}
	return r, nil
}

// Listen begins to deliver, what has come since Open first. It needn't be called before the first process is started.
func (r *Reader) Listen() {
	r.reading.Do(func() {
		r.log = os.NewFile(uintptr(r.socket), "audit")
		go r.run()
	})
}

// Prove returns nil as soon as records are known to arrive: a reader in another network namespace than the first receives nothing.
func (r *Reader) Prove() error { return r.mark(context.Background(), nil) }

// Proven reports whether records have been seen to arrive.
func (r *Reader) Proven() bool { return r.proven.Load() }

// connect opens both sockets and turns auditing on.
func (r *Reader) connect(state string) (err error) {
	if r.control, err = openControl(); err != nil {
		return explain(err, "CAP_AUDIT_CONTROL")
	}
	if r.socket, err = openLog(); err != nil {
		return explain(err, "CAP_AUDIT_READ")
	}
	r.hold, r.recent, err = holdAudit(r.control, state)
	r.asked = time.Now()
	return explain(err, "CAP_AUDIT_CONTROL")
}

// explain returns what is missing.
func explain(err error, capability string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("this kernel has no auditing (CONFIG_AUDIT, or audit=0 at boot): %w", err)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("auditing isn't reachable from a user namespace: %w", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s is missing, or this isn't the first pid namespace (run as root on the host): %w", capability, err)
	}
	return err
}

func proofError(err error) error {
	if errors.Is(err, errQuiet) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("records don't arrive: this isn't the first network namespace, or an audit rule suppresses them")
	}
	return explain(err, "CAP_AUDIT_WRITE")
}

// Close stops reading. The last reader on the machine puts auditing back as it was found.
func (r *Reader) Close() error {
	err := os.ErrClosed
	r.closing.Do(func() {
		r.reading.Do(func() { close(r.done) })
		r.ending.Store(true)
		if r.log != nil {
			_ = r.log.SetReadDeadline(time.Unix(1, 0)) // ends the reading, while the rest is given up
		}
		err = r.shut()
		<-r.done
	})
	return err
}

func (r *Reader) shut() error {
	if r.log == nil && r.socket >= 0 {
		unix.Close(r.socket)
	}
	r.ordering.Lock()
	defer r.ordering.Unlock()
	var recent *status
	if time.Since(r.asked) < recentTime {
		recent = &r.recent
	}
	err := r.hold.release(recent)
	if r.control >= 0 {
		unix.Close(r.control)
	}
	return err
}

// run reads until nothing is to be read any more.
func (r *Reader) run() {
	defer close(r.done)
	defer r.log.Close()
	conn, err := r.log.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for !r.ending.Load() { // looked at after the deadline has been set: Close sets it in the other order
		m, err := receive(conn, r.socket, buf)
		r.mu.Lock()
		switch {
		case err == nil:
			r.came++
			r.handle(m)
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.asm.flush()
		case errors.Is(err, unix.ENOBUFS):
			r.overflow++
		case errors.Is(err, errMalformed):
			r.unread++
		default: // broken, which every mark from now on reports
			r.mu.Unlock()
			return
		}
		var until time.Time
		if len(r.asm.order) > 0 {
			until = time.Now().Add(settleTime)
		}
		r.mu.Unlock()
		_ = r.log.SetReadDeadline(until) // it's open
	}
}

// handle takes in one record.
func (r *Reader) handle(m message) {
	if m.kind == typeTrustedApp {
		r.passMark(string(m.data))
	} else if r.take(m.kind, string(m.data)) != nil {
		r.unread++
	}
}

// take reads one record that isn't a mark.
func (r *Reader) take(kind uint16, text string) error {
	rec := record{kind: kind}
	rest, err := rec.header(text)
	if err != nil {
		return err
	}
	if kind == typeSyscall && r.asm.pending[rec.serial] == nil {
		return nil // nothing was refused in it
	}
	rec.fields = r.fields[:0]
	if err := rec.split(rest); err != nil {
		return err
	}
	r.fields = rec.fields
	return r.takeFields(&rec)
}

func (r *Reader) takeFields(rec *record) error {
	switch rec.kind {
	case typeLandlockAccess:
		d, err := decodeAccess(rec)
		if err != nil {
			return err
		}
		r.asm.access(d)
	case typeSyscall:
		c, err := decodeSyscall(rec)
		if err != nil {
			return err
		}
		r.asm.finish(rec.serial, c)
	case typeSeccomp:
		d, err := decodeSeccomp(rec)
		if err != nil {
			return err
		}
		r.dispatch(d)
	case typeLandlockDomain:
		d, err := decodeDomain(rec)
		if err != nil {
			return err
		}
		r.takeDomain(d)
	case typeLogin:
		return r.takeLogin(rec)
	case typeConfigChange:
		if enabled, _ := rec.get("audit_enabled"); enabled == "0" {
			r.off = rec.time
		}
	}
	return nil
}

// takeLogin notes who started an audit session.
func (r *Reader) takeLogin(rec *record) error {
	d := decoder{r: rec}
	ses, pid := uint32(d.number("ses", 10, unset)), int(d.number("pid", 10, 0))
	res, _ := rec.get("res")
	if d.err != nil || res != "1" || ses == NoSession {
		return d.err
	}
	if len(r.starters) >= maxRemembered {
		clear(r.starters)
	}
	r.starters[ses] = pid
	for _, w := range r.watches {
		w.takeLogin(ses, pid)
	}
	return nil
}

// takeDomain notes who made a Landlock domain, or how many refusals it had in all.
func (r *Reader) takeDomain(d domain) {
	if d.ended {
		delete(r.makers, d.id)
	} else {
		if len(r.makers) >= maxRemembered {
			clear(r.makers)
		}
		r.makers[d.id] = d
	}
	for _, w := range r.watches {
		w.takeDomain(d)
	}
}

// dispatch hands a refusal to whom it concerns.
func (r *Reader) dispatch(d *Denial) {
	for _, w := range r.watches {
		if w.concerns(d) {
			w.take(*d)
		}
	}
}

func (r *Reader) order(kind uint16, data []byte) error {
	r.ordering.Lock()
	defer r.ordering.Unlock()
	_, err := order(r.control, kind, data, 0)
	return err
}

// lost is the kernel's count of records that it dropped, for whomever they were. An answer that isn't older than maxAge
// serves.
func (r *Reader) lost(maxAge time.Duration) (uint32, error) {
	r.ordering.Lock()
	defer r.ordering.Unlock()
	if time.Since(r.asked) < maxAge {
		return r.recent.Lost, nil
	}
	s, err := getStatus(r.control)
	if err == nil {
		r.recent, r.asked = s, time.Now()
	}
	return s.Lost, err
}

func (r *Reader) forget(w *Watch) {
	r.watches = slices.DeleteFunc(r.watches, func(o *Watch) bool { return o == w })
}
