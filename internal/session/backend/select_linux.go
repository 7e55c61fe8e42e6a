package backend

import (
	"cmp"
	"errors"
	"os"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/proc"
)

// Backends are those that this build has.
var Backends = []string{"bpf", "landlock"}

// automatic is the best backend that this build and this machine have.
func automatic(daemon string, asked AskState) (Backend, error) {
	b, ok, skipped := remote(daemon, asked)
	if ok && daemon != "require" {
		b.Fallback = func() (Backend, error) { return automatic("none", asked) }
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
	b, _, err := named("landlock", "none", asked)
	b.Skipped = skipped
	return b, err
}

func named(name, daemon string, asked AskState) (b Backend, ok bool, err error) {
	switch name {
	case "bpf":
		b, ok, err := remote(daemon, asked)
		if ok || err != nil && daemon == "require" {
			return b, true, err
		}
		b, err = bpf(true)
		return b, true, err
	case "landlock":
		if daemon == "require" {
			return Backend{}, true, errors.New("toolguardd has no part in the landlock backend: leave --backend landlock out")
		}
	default:
		return Backend{}, false, nil
	}
	b, err = byLandlock()
	return b, true, err
}
