package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// After is a call that has run, as hooks get it. One of Result and Error is given.
type After struct {
	Before // with the arguments as run

	Result   json.RawMessage `json:"result,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
	Duration int64           `json:"duration_ms"`
}

// Failure is an after-hook that didn't get its call, or ended with an error.
type Failure struct {
	Hook string
	Rule toolset.Rule
	Call string // its id
	Tool string
	Err  error
}

// maxRunning is how many after-hooks run at a time.
const maxRunning = 16

// After starts the hooks that are for the call's tool, and returns at once. What they answer doesn't matter: a hook fails if its status isn't 0,
// or 2xx of HTTP, or at its deadline. A hook that would be one too many isn't started, which is a failure, too.
func (r *Runner) After(hooks []*toolset.Hook, a After, bare string) {
	a.Event = "after_tool_call"
	var body []byte
	for _, h := range hooks {
		if !h.For(a.Tool, bare) {
			continue
		}
		ctx, err := r.begin()
		if err == nil && body == nil {
			if body, err = encode(&a); err != nil {
				r.end()
			}
		}
		if err != nil {
			r.fail(h, &a, err)
			continue
		}
		go func() {
			defer r.end()
			if _, err := r.send(ctx, h, body, func(status int) bool { return status >= 200 && status < 300 }); err != nil {
				r.fail(h, &a, err)
			}
		}()
	}
}

func (r *Runner) fail(h *toolset.Hook, a *After, err error) {
	if r.Failed != nil {
		r.Failed(&Failure{Hook: Name(h), Rule: h.Rule, Call: a.ID, Tool: a.Tool, Err: err})
	}
}

// begin counts one more hook that runs.
func (r *Runner) begin() (context.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, errors.New("it wasn't started: the session ends")
	case r.running == maxRunning:
		return nil, fmt.Errorf("it wasn't started: %d hooks run at a time, and all of them are busy", maxRunning)
	}
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancel(context.Background())
	}
	r.running++
	return r.ctx, nil
}

func (r *Runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running--; r.running == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// Close waits for the after-hooks that run, at most for the given time, and then ends them. No further one starts. Call it before the session's
// orphans are ended: hooks are children of the same process.
func (r *Runner) Close(timeout time.Duration) {
	idle, cancel := r.close()
	if idle == nil {
		return
	}
	defer cancel()
	select {
	case <-idle:
		return
	case <-time.After(timeout):
	}
	cancel()
	select {
	case <-idle:
	case <-time.After(grace):
	}
}

// close lets no further hook start. idle is closed when those that run have ended; it's nil if none runs.
func (r *Runner) close() (idle <-chan struct{}, cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.running == 0 {
		return nil, nil
	}
	r.idle = make(chan struct{})
	return r.idle, r.cancel
}
