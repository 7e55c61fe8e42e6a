package backend

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/proc"
)

// Backends are the backends of this build.
var Backends = []string{"bpf", "landlock", "bwrap", "firejail"}

// automatic returns the best backend of this build and this machine.
func automatic(daemon string, ask AskState) (Backend, error) {
	b, ok, skipped := byDaemon(daemon, ask)
	if ok && daemon != "require" {
		b.Fallback = func() (Backend, error) { return automatic("none", ask) }
	}
	if ok || skipped != nil && (daemon == "require" || errors.Is(skipped, api.ErrInterrupted)) {
		return b, skipped
	}
	if os.Geteuid() == 0 {
		b, err := bpf(false)
		if err == nil {
			return b, nil
		}
		if !lacksBPF() && len(proc.ReadShort("/sys/kernel/security/lsm")) > 0 {
			skipped = cmp.Or(skipped, err)
		}
	}
	b, _, err := named("landlock", "none", ask)
	b.Skipped, b.Others = skipped, []func() (Backend, error){byBubblewrap, byFirejail}
	return b, err
}

func named(name, daemon string, ask AskState) (b Backend, ok bool, err error) {
	switch name {
	case "bpf":
		b, ok, err := byDaemon(daemon, ask)
		if ok || err != nil && daemon == "require" {
			return b, true, err
		}
		b, err = bpf(true)
		return b, true, err
	case "landlock":
		b, err = byLandlock()
	case "bwrap":
		b, err = byBubblewrap()
	case "firejail":
		b, err = byFirejail()
	default:
		return Backend{}, false, nil
	}
	if daemon == "require" {
		return Backend{}, true, fmt.Errorf("the %s backend doesn't use toolguardd: leave out --backend %s", name, name)
	}
	return b, true, err
}
