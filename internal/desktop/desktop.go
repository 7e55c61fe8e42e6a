package desktop

import (
	"sync"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Notice is a line of JSON on the standard input of 'toolguard-ship notify'. Both texts are escaped.
type Notice struct {
	Summary string `json:"summary"`
	Body    string `json:"body"`
}

// maxText is the length of a notice, in columns: it says that something waits, and the prompt says what.
const maxText = 300

// Notices sends notices to the program that shows them, which the first one starts. The zero value is ready to use.
type Notices struct {
	start sync.Once
	queue chan Notice // nil: nothing is shown
}

// Notify shows a notice about a pending approval. It never waits: what is too much is left out.
func (n *Notices) Notify(a *message.Approval) {
	n.start.Do(func() { n.queue = start() })
	select {
	case n.queue <- Notice{Summary: "toolguard: an approval is pending", Body: ask.Cut(ask.Summary(a), maxText)}:
	default:
	}
}

// Close ends the program. Nothing can be shown afterwards.
func (n *Notices) Close() {
	n.start.Do(func() {})
	if n.queue != nil {
		close(n.queue)
		n.queue = nil
	}
}
