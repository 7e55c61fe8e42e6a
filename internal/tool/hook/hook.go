package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"sync"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/printable"
)

// Runner runs hooks. It is safe for concurrent use. The zero Runner has no URL, so that each hook with one fails.
type Runner struct {
	Env []string // of programs: what toolguard itself was started with

	// URL posts a body to an address and returns the answer. Its error is the hook's failure. It returns soon after the context is done.
	URL func(ctx context.Context, address string, body []byte) (status int, answer []byte, err error)

	// Check is called before a program is started, and its error is the hook's failure; nil accepts all. Seal returns one.
	Check func(*toolset.Hook) error

	// Failed is called for each failure of an after-hook, from any goroutine; nil ignores them.
	Failed func(*Failure)

	mu      sync.Mutex
	closed  bool
	running int
	idle    chan struct{}      // closed when none is running any more; nil while none waits
	ctx     context.Context    // of the after-hooks
	cancel  context.CancelFunc // ends them
}

// Before is a call as hooks get it.
type Before struct {
	Event      string          `json:"event"` // set by the Runner
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"`
	Cwd        string          `json:"cwd"`
	Agent      string          `json:"agent"`
	Session    string          `json:"session"`
	Invocation string          `json:"invocation"`
	Risk       string          `json:"risk"`
}

// Objection is the block, or the demand for an approval, of one hook.
type Objection struct {
	Hook   string       // its name: the program, or the host and path of the address
	Rule   toolset.Rule // the key of the policy that has the hook
	Text   string       // for the model and for people
	Failed bool         // the hook gave no valid answer
}

// Reason is the reason of the answer to a call that a hook blocks.
const Reason = "hook_blocked"

// Verdict is what the hooks of a call have decided. The call is denied if Block or Denied is set.
type Verdict struct {
	Arguments json.RawMessage // with which the call goes on
	Rewritten bool            // they aren't those that it came with
	Block     *Objection
	Asks      []Objection
	Denied    error // what recheck returned about Arguments, which RewrittenBy has made
	// RewrittenBy is the last hook that changed the arguments; "" for none.
	RewrittenBy string
}

// maxArguments is the size of the largest arguments, in bytes: that of the largest call.
const maxArguments = 8 << 20

// Before asks the hooks that are for the call's tool, in their order. bare is the name that an MCP server gave the tool, else "". Each hook gets
// the arguments as the previous one left them, after recheck has accepted them; recheck is the gate, and its error ends the hooks. If the
// context ends, because the call was cancelled, the call is blocked.
func (r *Runner) Before(ctx context.Context, hooks []*toolset.Hook, b Before, bare string, recheck func(json.RawMessage) error) Verdict {
	v := Verdict{Arguments: b.Arguments}
	b.Event = "before_tool_call"
	for _, h := range hooks {
		if !h.For(b.Tool, bare) {
			continue
		}
		b.Arguments = v.Arguments
		changed, err := r.before(ctx, h, &b, &v)
		if err != nil {
			o := objection(h, err.Error())
			o.Failed = true
			v.Block = &o
		}
		if v.Block != nil {
			return v
		}
		if !changed {
			continue
		}
		v.Rewritten, v.RewrittenBy = true, Name(h)
		if v.Denied = recheck(v.Arguments); v.Denied != nil {
			return v
		}
	}
	return v
}

// before asks one hook, and applies its answer to the verdict. The error is a failure of the hook.
func (r *Runner) before(ctx context.Context, h *toolset.Hook, b *Before, v *Verdict) (changed bool, err error) {
	body, err := encode(b)
	if err != nil {
		return false, err
	}
	text, err := r.send(ctx, h, body, func(status int) bool { return status == 200 })
	if err != nil {
		return false, err
	}
	a, err := parse(text)
	if err != nil {
		return false, err
	}
	if a.block {
		o := objection(h, a.reason)
		v.Block = &o
		return false, nil
	}
	if a.ask {
		o := objection(h, a.reason)
		o.Text = fmt.Sprintf("hook %s asks for an approval%s", o.Hook, after(": ", a.reason))
		v.Asks = append(v.Asks, o)
	}
	if len(a.arguments) == 0 {
		return false, nil
	}
	merged, err := merge(b.Arguments, a.arguments)
	if err != nil {
		return false, fmt.Errorf("its arguments can't be used: %w", err)
	}
	changed = !bytes.Equal(merged, compact(b.Arguments))
	if changed {
		v.Arguments = merged
	}
	return changed, nil
}

func objection(h *toolset.Hook, why string) Objection {
	name := Name(h)
	return Objection{Hook: name, Rule: h.Rule, Text: fmt.Sprintf("tool call blocked by hook %s%s", name, after(": ", why))}
}

// after joins a text after a separator; without a text it's "".
func after(separator, text string) string {
	if text = clip(text, maxReason); text == "" {
		return ""
	}
	return separator + text
}

// The longest texts in messages, in bytes.
const (
	maxReason = 2000
	maxStderr = 500
)

// clip shortens a text, and escapes its control characters.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return printable.Clean(text)
}

// Name is the name of a hook in messages: the base name of the program, or the host and path of the address, without its query.
func Name(h *toolset.Hook) string {
	if h.URL == "" {
		return clip(path.Base(h.Command[0]), maxStderr)
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return "URL"
	}
	return clip(cmp.Or(u.Host+u.EscapedPath(), "URL"), maxStderr)
}

// errDeadline is why a hook's context ends.
var errDeadline = errors.New("the deadline has passed")

// send runs a hook, and returns what it answers. isGood decides on the HTTP status.
func (r *Runner) send(ctx context.Context, h *toolset.Hook, body []byte, isGood func(status int) bool) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, errDeadline)
	defer cancel()
	text, err := r.exchange(ctx, h, body, isGood)
	if err == nil || ctx.Err() == nil {
		return text, err
	}
	if errors.Is(context.Cause(ctx), errDeadline) {
		return nil, fmt.Errorf("it took longer than %s: the policy's timeout can be at most 60s", h.Timeout)
	}
	return nil, errors.New("the call was cancelled")
}

func (r *Runner) exchange(ctx context.Context, h *toolset.Hook, body []byte, isGood func(status int) bool) ([]byte, error) {
	if h.URL == "" {
		if r.Check != nil {
			if err := r.Check(h); err != nil {
				return nil, err
			}
		}
		return runProgram(ctx, h, r.Env, body)
	}
	if r.URL == nil {
		return nil, errors.New("no address can be called here")
	}
	status, text, err := r.URL(ctx, h.URL, body)
	switch {
	case err != nil:
		return nil, err
	case status >= 300 && status < 400:
		return nil, fmt.Errorf("its HTTP status is %d, and redirects aren't followed: write the final address into the policy", status)
	case !isGood(status):
		return nil, fmt.Errorf("its HTTP status is %d", status)
	case len(text) > maxAnswer:
		return nil, errTooLarge
	}
	return text, nil
}

// encode writes JSON without the escapes for HTML.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("the call can't be written as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// compact is JSON without its blanks; as it is if it's no JSON.
func compact(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}
