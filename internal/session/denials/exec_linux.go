package denials

import (
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/policy"
)

// executed emits that a program was executed. mu is locked.
func (d *Collector) executed(c *policy.Compiled, k *loader.Event) {
	if d.cfg.Events == nil {
		return
	}
	e := d.cfg.About(c, event.Event{Kind: event.Exec, Mechanism: "bpf:exec"})
	e.Time = k.Time
	if len(k.Paths) > 0 {
		e.Target = k.Paths[0].Path
	}
	if k.Asked != e.Target {
		e.Asked = k.Asked
	}
	p := event.Process{PID: k.PID, UID: k.UID, Exe: e.Target, Comm: k.Comm, Argv: argvOf(k), Start: k.Start}
	e.Process = d.chain(p, parent(k))
	d.emit(e)
	// Its children may be reported after it has ended. Its former program is obsolete.
	d.ancestors[p.PID] = append([]event.Process{p.AsAncestor()}, e.Process[1:]...)
	d.scheduleTick()
}

// argvOf returns the command line of an execution, as far as the kernel reports it.
func argvOf(k *loader.Event) []string {
	argv := strings.Split(k.Args, "\x00")
	last := len(argv) - 1
	switch cut := argv[last]; {
	case cut != "":
		argv[last] = cut + "…"
	case last < int(k.Detail):
		argv[last] = "…"
	default:
		argv = argv[:last]
	}
	return argv
}
