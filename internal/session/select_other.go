//go:build !linux

package session

import (
	"errors"
	"runtime"
)

// Backends are those that this build has: none.
var Backends []string

var errPlatform = errors.New("this build has no backend for " + runtime.GOOS + ": nothing is started unguarded")

func automatic(string, asking) (backend, error)           { return backend{}, errPlatform }
func named(string, string, asking) (backend, bool, error) { return backend{}, false, nil }
func instead(*backend, string, string) string             { return "" }
func askState() (state, error)                            { return state{}, errPlatform }

type (
	state       struct{}
	heldNetwork struct{}
)

func (*heldNetwork) close() {}

const settingsFile = ""

func daemonSetting(string) (value, where string, err error) { return "", "", nil }

func doctor() Machine {
	return Machine{Probes: []Probe{{
		Name: "platform", Needs: "everything", Result: No, Detail: runtime.GOOS + "/" + runtime.GOARCH, Fix: "use Linux",
	}}}
}
