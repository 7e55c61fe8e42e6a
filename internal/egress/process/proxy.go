package process

import (
	"encoding/json"
	"io"
	"runtime/debug"

	"github.com/toolguard/toolguard/internal/egress"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/egress/ownaddr"
)

// ServeProxy runs egress as an HTTP proxy, where no kernel redirects a session's connections (macOS). in has the instructions, out gets the messages.
// It returns when in ends. The process has the rights of its user: only its input is restricted.
func ServeProxy(in io.Reader, out io.Writer) error {
	r := newReporter(out)
	err := serveProxy(json.NewDecoder(in), r)
	if err != nil {
		_ = r.send(&message.Message{Error: err.Error()})
	}
	return err
}

func serveProxy(toolguard *json.Decoder, r *reporter) error {
	debug.SetMemoryLimit(maxMemory / 2)
	o, err := receive(toolguard)
	if err != nil {
		return err
	}
	return serveBy(toolguard, r, o, &egress.Server{Kernel: egress.NoKernel{}, Proxy: true, IsOwn: ownaddr.IsNow})
}
