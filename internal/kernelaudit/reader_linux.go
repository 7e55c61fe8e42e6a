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

// ErrUnavailable is wrapped by errors of a process that can't read denials on this machine. The message names the missing requirement.
var ErrUnavailable = errors.New("the kernel's audit records can't be read")

var errNoRecords = errors.New("no records arrived")

// firstRecordTimeout is how long the kernel may take to send the first record, which normally takes some 100 µs.
const firstRecordTimeout = time.Second

// quietTimeout is how long no record may arrive while a mark is awaited, and how long the first mark may take while others arrive.
const quietTimeout = 3 * time.Second

// callTimeout is how long a denial waits for the record of its caller. After that it's delivered without; no watch matches it if it's the
// first of its session. On a busy machine a call can take that long to return.
const callTimeout = 2 * time.Second

// statusMaxAge is how old a status may be that decides which settings Close restores.
const statusMaxAge = 50 * time.Millisecond

// maxTracked bounds the processes and domains that are remembered, of which most may belong to no session.
const maxTracked = 4096

// Reader receives the kernel's records, and keeps auditing on until it is closed.
type Reader struct {
	socket int      // receives the records
	file   *os.File // the same socket after Listen, which first sets up the runtime's poller
	lease  *lease
	done   chan struct{} // closed when reading has ended

	proven     atomic.Bool // a mark has arrived
	stopping   atomic.Bool // Close was called
	listenOnce sync.Once
	closeOnce  sync.Once
	controlMu  sync.Mutex // one request at a time on control
	control    int
	lastStatus status    // the kernel's last answer
	statusTime time.Time // of lastStatus

	mu          sync.Mutex // everything below; held while records are delivered
	assembler   *assembler
	watches     []*Watch
	starters    map[uint32]int    // audit session: the process that started it
	makers      map[uint64]domain // the record of a Landlock domain's creation
	marks       map[string]chan struct{}
	recordCount uint64    // records received
	overflow    uint64    // times that the socket's buffer was full
	unread      uint64    // records that couldn't be parsed
	disabledAt  time.Time // when auditing was last switched off
	fields      []field
}

// Open subscribes: from now on the kernel queues its records for this reader. Only processes that are forked after it have complete
// records. Prove and Watch.Finish return an error if no records arrive.
func Open() (*Reader, error) { return open(stateDir) }

func open(state string) (_ *Reader, err error) {
	r := &Reader{
		control: -1, socket: -1, done: make(chan struct{}),
		starters: map[uint32]int{}, makers: map[uint64]domain{}, marks: map[string]chan struct{}{},
	}
	r.assembler = newAssembler(r.dispatch)
	defer func() {
		if err != nil {
			r.release()
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}()
	if err := r.connect(state); err != nil {
		return nil, err
	}
	return r, nil
}

// Listen begins to deliver, starting with the records since Open. It needn't be called before the first process is started.
func (r *Reader) Listen() {
	r.listenOnce.Do(func() {
		r.file = os.NewFile(uintptr(r.socket), "audit")
		go r.run()
	})
}

// Prove returns nil as soon as records are known to arrive: a reader in another network namespace than the first receives nothing.
func (r *Reader) Prove() error { return r.waitForMark(context.Background(), nil) }

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
	r.lease, r.lastStatus, err = acquireLease(r.control, state)
	r.statusTime = time.Now()
	return explain(err, "CAP_AUDIT_CONTROL")
}

// explain adds the missing requirement to an error.
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

func noRecordsError(err error) error {
	if errors.Is(err, errNoRecords) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("records don't arrive: this isn't the first network namespace, or an audit rule suppresses them")
	}
	return explain(err, "CAP_AUDIT_WRITE")
}

// Close stops reading. The last reader on the machine restores the state of auditing.
func (r *Reader) Close() error {
	err := os.ErrClosed
	r.closeOnce.Do(func() {
		r.listenOnce.Do(func() { close(r.done) })
		r.stopping.Store(true)
		if r.file != nil {
			_ = r.file.SetReadDeadline(time.Unix(1, 0)) // ends the reading, while the rest is released
		}
		err = r.release()
		<-r.done
	})
	return err
}

func (r *Reader) release() error {
	if r.file == nil && r.socket >= 0 {
		unix.Close(r.socket)
	}
	r.controlMu.Lock()
	defer r.controlMu.Unlock()
	var recent *status
	if time.Since(r.statusTime) < statusMaxAge {
		recent = &r.lastStatus
	}
	err := r.lease.release(recent)
	if r.control >= 0 {
		unix.Close(r.control)
	}
	return err
}

// run reads until Close is called or the socket fails.
func (r *Reader) run() {
	defer close(r.done)
	defer r.file.Close()
	conn, err := r.file.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for !r.stopping.Load() { // checked after the deadline has been set: Close sets them in the other order
		m, err := receive(conn, r.socket, buf)
		r.mu.Lock()
		switch {
		case err == nil:
			r.recordCount++
			r.handleMessage(m)
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.assembler.flush()
		case errors.Is(err, unix.ENOBUFS):
			r.overflow++
		case errors.Is(err, errMalformed):
			r.unread++
		default: // the socket failed, which every mark from now on reports
			r.mu.Unlock()
			return
		}
		var until time.Time
		if len(r.assembler.order) > 0 {
			until = time.Now().Add(callTimeout)
		}
		r.mu.Unlock()
		_ = r.file.SetReadDeadline(until) // it's open
	}
}

// handleMessage handles one record or mark.
func (r *Reader) handleMessage(m message) {
	if m.kind == typeTrustedApp {
		r.receiveMark(string(m.data))
	} else if r.handleRecord(m.kind, string(m.data)) != nil {
		r.unread++
	}
}

// handleRecord handles one record that isn't a mark.
func (r *Reader) handleRecord(kind uint16, text string) error {
	rec := record{kind: kind}
	rest, err := rec.header(text)
	if err != nil {
		return err
	}
	if kind == typeSyscall && r.assembler.pending[rec.serial] == nil {
		return nil // nothing was denied in this call
	}
	rec.fields = r.fields[:0]
	if err := rec.split(rest); err != nil {
		return err
	}
	r.fields = rec.fields
	return r.handleFields(&rec)
}

func (r *Reader) handleFields(rec *record) error {
	switch rec.kind {
	case typeLandlockAccess:
		d, err := decodeAccess(rec)
		if err != nil {
			return err
		}
		r.assembler.access(d)
	case typeSyscall:
		c, err := decodeSyscall(rec)
		if err != nil {
			return err
		}
		r.assembler.finish(rec.serial, c)
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
		r.recordDomain(d)
	case typeLogin:
		return r.recordLogin(rec)
	case typeConfigChange:
		if enabled, _ := rec.get("audit_enabled"); enabled == "0" {
			r.disabledAt = rec.time
		}
	}
	return nil
}

// recordLogin records which process began an audit session.
func (r *Reader) recordLogin(rec *record) error {
	d := decoder{r: rec}
	ses, pid := uint32(d.number("ses", 10, unset)), int(d.number("pid", 10, 0))
	res, _ := rec.get("res")
	if d.err != nil || res != "1" || ses == NoSession {
		return d.err
	}
	if len(r.starters) >= maxTracked {
		clear(r.starters)
	}
	r.starters[ses] = pid
	for _, w := range r.watches {
		w.recordLogin(ses, pid)
	}
	return nil
}

// recordDomain records which process created a Landlock domain, or how many denials it had in all.
func (r *Reader) recordDomain(d domain) {
	if d.ended {
		delete(r.makers, d.id)
	} else {
		if len(r.makers) >= maxTracked {
			clear(r.makers)
		}
		r.makers[d.id] = d
	}
	for _, w := range r.watches {
		w.recordDomain(d)
	}
}

// dispatch delivers a denial to the watches that it matches.
func (r *Reader) dispatch(d *Denial) {
	for _, w := range r.watches {
		if w.matches(d) {
			w.handleDenial(*d)
		}
	}
}

func (r *Reader) send(kind uint16, data []byte) error {
	r.controlMu.Lock()
	defer r.controlMu.Unlock()
	_, err := request(r.control, kind, data, 0)
	return err
}

// droppedRecords returns the kernel's count of dropped records, for any receiver. The count may be as old as maxAge.
func (r *Reader) droppedRecords(maxAge time.Duration) (uint32, error) {
	r.controlMu.Lock()
	defer r.controlMu.Unlock()
	if time.Since(r.statusTime) < maxAge {
		return r.lastStatus.Lost, nil
	}
	s, err := getStatus(r.control)
	if err == nil {
		r.lastStatus, r.statusTime = s, time.Now()
	}
	return s.Lost, err
}

func (r *Reader) removeWatch(w *Watch) {
	r.watches = slices.DeleteFunc(r.watches, func(o *Watch) bool { return o == w })
}
