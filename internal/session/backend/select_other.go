//go:build !linux && !darwin

package backend

import (
	"errors"
	"runtime"

	"github.com/toolguard/toolguard/internal/policy"
)

// Backends are the backends of this build: none.
var Backends []string

var errPlatform = errors.New("this build has no backend for " + runtime.GOOS + ": nothing is started without confinement")

func automatic(string, AskState) (Backend, error)           { return Backend{}, errPlatform }
func named(string, string, AskState) (Backend, bool, error) { return Backend{}, false, nil }

func doctor() Machine {
	return Machine{Probes: []Probe{{
		Name: "platform", Needs: "everything", Result: No, Detail: runtime.GOOS + "/" + runtime.GOARCH, Fix: "use Linux or macOS",
	}}}
}
