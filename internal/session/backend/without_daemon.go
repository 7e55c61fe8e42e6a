//go:build !linux

package backend

import (
	"errors"

	"github.com/toolguard/toolguard/internal/policy"
)

// errNoDaemon is the answer to everything that asks for toolguardd.
var errNoDaemon = errors.New("toolguardd exists for Linux alone: leave out --daemon require")

// AskDaemon returns no state.
func AskDaemon() (state, error) { return state{}, errNoDaemon }

func instead(*Backend, string, string) string   { return "" }
func protectsMore([]policy.Enforceability) bool { return false }

type (
	state   struct{}
	Network struct{}
)

func (*Network) close() {}

const settingsFile = ""

func daemonSetting(string) (value, where string, err error) { return "", "", nil }
