package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Config is a run under a relay.
type Config struct {
	Args     []string                                 // of this program, for the inner process
	Source   func(address string) (ask.Source, error) // the approvals of the session that serves its calls there
	Appeared func(a *message.Approval)                // a new approval is pending; may be nil, and mustn't block
}

// Run runs this program again, as the inner process, and asks at the terminal about its approvals. It returns its exit status, 128+N if
// signal N ended it. The terminal is restored whatever happens, except after SIGKILL. An error means that nothing was started: it is
// ErrNoTerminal where there is no terminal.
func Run(c Config) (code int, err error) {
	d, err := openDevice()
	if err != nil {
		return 0, err
	}
	defer d.file.Close()
	master, slave, err := d.openPair()
	if err != nil {
		return 0, err
	}
	defer master.Close()
	signals := make(chan os.Signal, 64) // not of SIGTSTP, whose default action the Go runtime can't restore: see stop
	signal.Notify(signals, forwarded...)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(signals)
	p, err := startMonitor(&c, slave)
	slave.Close()
	if err != nil {
		return 0, err
	}
	// Reading from the background then fails, where it would stop this process. The monitor must not inherit it.
	signal.Ignore(syscall.SIGTTIN)
	r := newRelay(&c, d, master, p, signals)
	defer r.recovered()
	code, err = r.loop()
	p.control.Close() // ends the monitor
	_ = p.cmd.Wait()
	return code, err
}

// forwarded are the signals that the inner process gets too.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// The sizes of the relay's buffers.
const (
	chunkSize     = 32 << 10
	maxWithheld   = 1 << 20 // of what the command writes while a prompt stands; then the command waits
	maxTypedAhead = 64 << 10
)

// relay is the state of the loop, which alone uses it. The other goroutines read and write files, and send to its channels.
type relay struct {
	config  *Config
	device  *device
	master  *os.File
	process *process

	signals   <-chan os.Signal
	typed     chan []byte   // nil: the terminal has gone
	readable  chan struct{} // wakes the reader after the background
	written   chan []byte   // by the command; a nil one: no more
	toCommand chan []byte
	toDevice  chan []byte
	idle      chan struct{} // a write to the terminal is complete
	reported  chan report
	lists     chan []message.Approval
	decided   chan decision

	input    []byte   // for the command
	screen   [][]byte // for the terminal
	busy     int      // writes to the terminal that are under way
	withheld []byte   // what the command wrote while a prompt stands
	modes    modes
	code     int
	failed   error

	background bool // the terminal is another process's
	ended      bool // the inner process has
	endedAt    time.Time
	lastOutput time.Time
	sizeAt     time.Time // when the size is set again, see redrawCommand

	questions
}

func newRelay(c *Config, d *device, master *os.File, p *process, signals <-chan os.Signal) *relay {
	return &relay{
		config: c, device: d, master: master, process: p, signals: signals,
		typed: make(chan []byte), readable: make(chan struct{}, 1), written: make(chan []byte), toCommand: make(chan []byte), toDevice: make(chan []byte),
		idle: make(chan struct{}, 1), reported: make(chan report), lists: make(chan []message.Approval), decided: make(chan decision, 1),
		questions: questions{left: map[string]bool{}, seen: map[string]bool{}},
	}
}

// recovered restores the terminal when a goroutine panics, and panics again.
func (r *relay) recovered() {
	p := recover()
	r.device.restore()
	if p != nil {
		panic(p)
	}
}

func (r *relay) start(ctx context.Context) {
	run := func(f func()) {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					r.device.restore()
					panic(p)
				}
			}()
			f()
		}()
	}
	run(func() { r.readDevice(ctx) })
	run(func() { readAll(ctx, r.master, r.written) })
	run(func() {
		for p := range r.toCommand {
			_, _ = r.master.Write(p)
		}
	})
	run(func() {
		for p := range r.toDevice {
			_, _ = r.device.file.Write(p)
			r.idle <- struct{}{}
		}
	})
	run(func() {
		r.process.reports(func(x report) { send(ctx, r.reported, x) })
	})
	run(func() { r.follow(ctx) })
}

func send[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// readAll reads until the end of a file, and sends nil then.
func readAll(ctx context.Context, f *os.File, to chan<- []byte) {
	for {
		buf := make([]byte, chunkSize)
		n, err := f.Read(buf)
		if n > 0 {
			send(ctx, to, buf[:n])
		}
		if err != nil || n == 0 {
			send(ctx, to, nil)
			return
		}
	}
}

// readDevice reads what is typed. In the background that fails, and it waits.
func (r *relay) readDevice(ctx context.Context) {
	for {
		buf := make([]byte, chunkSize)
		n, err := r.device.file.Read(buf)
		switch {
		case n > 0:
			send(ctx, r.typed, buf[:n])
		case errors.Is(err, syscall.EIO):
			select {
			case <-r.readable:
			case <-ctx.Done():
				return
			}
		case err == nil || !errors.Is(err, syscall.EINTR):
			send(ctx, r.typed, nil)
			return
		}
	}
}

// follow sends the lists of approvals.
func (r *relay) follow(ctx context.Context) {
	address := r.process.address()
	if address == "" {
		return // the session serves no calls
	}
	for ctx.Err() == nil {
		s, err := r.config.Source(address)
		if err == nil {
			r.source.Store(&s)
			err = s.Watch(ctx, func(list []message.Approval) { send(ctx, r.lists, list) })
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// note writes a line between what the command writes.
func (r *relay) note(format string, args ...any) {
	r.show("\r\ntoolguard: " + fmt.Sprintf(format, args...) + "\r\n")
}

func (r *relay) show(text string) { r.screen = append(r.screen, []byte(text)) }
