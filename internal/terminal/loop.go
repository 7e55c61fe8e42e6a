package terminal

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// After the inner process has ended, other processes may still have the terminal. The relay reads until there was nothing for lull, at most
// lastWords long.
const (
	lull      = 200 * time.Millisecond
	lastWords = 2 * time.Second
)

// loop relays until the inner process has ended and all that it wrote is shown.
func (r *relay) loop() (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.resume()
	r.start(ctx)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	wake := time.NewTimer(time.Hour) // for keys, sizes and the end
	defer wake.Stop()
	for !r.complete() {
		if at := r.next(); !at.IsZero() {
			wake.Reset(max(time.Until(at), 0))
		}
		r.step(tick.C, wake.C)
	}
	r.show(r.modes.reset())
	r.flush(time.Second)
	r.device.restore()
	return r.code, r.failed
}

// step waits for one thing and does it.
func (r *relay) step(tick, wake <-chan time.Time) {
	var toCommand, toDevice chan []byte
	var input, output []byte
	if len(r.input) > 0 {
		toCommand, input = r.toCommand, r.input[:min(len(r.input), 1<<10)]
	}
	if len(r.screen) > 0 && r.busy == 0 {
		toDevice, output = r.toDevice, r.screen[0]
	}
	written, typed := r.written, r.typed
	if r.prompt == nil && len(r.screen) > 0 || len(r.withheld) >= maxWithheld {
		written = nil // the command waits
	}
	if r.prompt == nil && len(r.input) >= maxTypedAhead {
		typed = nil
	}
	select {
	case p := <-typed:
		r.receive(p)
	case p := <-written:
		r.relayOutput(p)
	case toCommand <- input:
		r.input = r.input[len(input):]
	case toDevice <- output:
		r.screen, r.busy = r.screen[1:], 1
	case <-r.idle:
		r.busy = 0
	case s := <-r.signals:
		r.signaled(s.(syscall.Signal))
	case x := <-r.reported:
		r.report(x)
	case list := <-r.lists:
		r.update(list, time.Now())
	case d := <-r.decided:
		r.decision(d)
	case <-tick:
		r.tick()
	case <-wake:
		r.timers(time.Now())
	}
}

// receive takes what was typed.
func (r *relay) receive(p []byte) {
	switch {
	case p == nil: // the terminal has gone
		r.typed = nil
		r.process.order("signal %d", syscall.SIGHUP)
	case r.prompt != nil:
		r.typedAtPrompt(p, time.Now())
	default:
		r.input = append(r.input, p...)
	}
}

// relayOutput takes what the command wrote.
func (r *relay) relayOutput(p []byte) {
	switch {
	case p == nil:
		r.written = nil
	case r.prompt != nil:
		r.withheld = append(r.withheld, p...)
	default:
		r.modes.write(p)
		r.screen = append(r.screen, p)
	}
	r.lastOutput = time.Now()
}

// complete reports whether the run is over.
func (r *relay) complete() bool {
	if !r.ended || r.prompt != nil {
		return false
	}
	if time.Since(r.endedAt) > lastWords {
		r.written = nil
	}
	return len(r.screen) == 0 && r.busy == 0 && (r.written == nil || time.Since(r.lastOutput) > lull)
}

// report takes a report of the monitor's.
func (r *relay) report(x report) {
	switch {
	case r.ended:
		return
	case x.what == "stopped":
		r.suspend()
		return
	case x.what == "exited":
		r.code = x.number
	case x.what == "failed":
		r.failed = fmt.Errorf("%s", x.text)
	default:
		r.failed = fmt.Errorf("the process that watches the command ended unexpectedly; the command may still run")
	}
	r.ended, r.endedAt, r.lastOutput = true, time.Now(), time.Now()
	r.list = nil
	r.closePrompt("")
}

func (r *relay) signaled(s syscall.Signal) {
	switch s {
	case syscall.SIGWINCH:
		setSize(r.master, r.device.size())
		if r.prompt != nil {
			r.show("\x1b[2J")
			r.draw()
		}
	case syscall.SIGCONT:
		r.resume()
	default:
		r.process.order("signal %d", s)
	}
}

// suspend stops this process, because the inner one has stopped.
func (r *relay) suspend() {
	r.drain()
	r.hidePrompt()
	r.flush(time.Second)
	r.device.restore()
	r.stop()
	r.resume()
	r.process.order("continue")
	r.nextPrompt()
}

// stop stops this process and the others of its job, as the terminal does. It returns after SIGCONT, or soon where the kernel stops no
// process because no shell could continue it.
func (r *relay) stop() {
	_ = syscall.Kill(0, syscall.SIGTSTP) // another thread may take it, a moment later
	for soon := time.After(lull); ; {
		select {
		case s := <-r.signals:
			if s == syscall.SIGCONT {
				return
			}
			r.signaled(s.(syscall.Signal))
		case <-soon:
			return
		}
	}
}

// drain shows what the command wrote before it stopped.
func (r *relay) drain() {
	for end := time.After(lull / 4); ; {
		select {
		case p := <-r.written:
			r.relayOutput(p)
			if p == nil {
				return
			}
		case <-end:
			return
		}
	}
}

// flush waits until everything for the terminal is written, but not forever.
func (r *relay) flush(most time.Duration) {
	for end := time.After(most); r.busy > 0 || len(r.screen) > 0; {
		var toDevice chan []byte
		var output []byte
		if len(r.screen) > 0 && r.busy == 0 {
			toDevice, output = r.toDevice, r.screen[0]
		}
		select {
		case toDevice <- output:
			r.screen, r.busy = r.screen[1:], 1
		case <-r.idle:
			r.busy = 0
		case <-end:
			return
		}
	}
}

// resume sets the terminal to raw mode, if it's this process's.
func (r *relay) resume() {
	if ok, err := r.device.foreground(); !ok || err != nil {
		r.background = true
		return
	}
	if err := r.device.enterRaw(); err != nil {
		return
	}
	r.background = false
	setSize(r.master, r.device.size())
	select {
	case r.readable <- struct{}{}:
	default:
	}
}

// tick runs once a second: a shell brings a running job to the foreground without a signal.
func (r *relay) tick() {
	if r.background {
		if r.resume(); !r.background {
			r.nextPrompt()
		}
	}
	r.expire(time.Now())
	if r.prompt != nil && len(r.screen) == 0 {
		r.draw()
	}
}

// redrawCommand lets a program that fills the screen draw it again: it sees a change of the size, and soon the right one.
func (r *relay) redrawCommand() {
	ws := *r.device.size()
	if ws.Row > 1 {
		ws.Row--
	}
	setSize(r.master, &ws)
	r.sizeAt = time.Now().Add(lull / 2)
}

// next is when timers must run; the zero time if never.
func (r *relay) next() (at time.Time) {
	earliest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	earliest(r.sizeAt)
	earliest(r.keyAt)
	if r.ended && len(r.screen) == 0 && r.busy == 0 {
		earliest(r.lastOutput.Add(lull + time.Millisecond))
	}
	return at
}

func (r *relay) timers(now time.Time) {
	if !r.sizeAt.IsZero() && !now.Before(r.sizeAt) {
		r.sizeAt = time.Time{}
		setSize(r.master, r.device.size())
	}
	if !r.keyAt.IsZero() && !now.Before(r.keyAt) {
		r.keyAt = time.Time{}
		r.settleKey(now)
	}
}
