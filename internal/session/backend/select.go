package backend

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// Backend is a selection of mechanisms that enforce a policy.
type Backend struct {
	name    string
	gaps    []string
	report  func(*Backend, *policy.Compiled) []policy.Enforceability
	unseen  func(explain.Question) string // why it can't deny the operation of a question; "": it can. nil: it always can
	Level   int                           // it mediates at least what Landlock with this ABI does
	Network *Network                      // its enforcement of network rules; nil: none
	Skipped error                         // why a better one that is set up here wasn't selected; nil: there is none, or it isn't wanted
	Maker   Maker                         // the process that makes the session in the kernel
	Image   *image.Image                  // the image of the reported policy, if this process makes the session
	Client  *api.Client                   // of toolguardd, if it makes the session
	Mac     *Mac                          // of the seatbelt backend; nil: another one

	Wrap   func(*policy.Compiled) (*launch.Wrapper, error) // prepares the program within which the command starts; nil: none
	Others []func() (Backend, error)                       // those that are tried if this one can't enforce the policy

	Fallback   func() (Backend, error) // the next backend if the session can't be made; nil: none
	RequiredBy string                  // the setting that requires toolguardd; "": none
}

// Maker is the process that makes a session in the kernel.
type Maker uint8

const (
	noMaker Maker = iota // the backend has no session in the kernel
	ThisProcess
	Daemon
)

// AskState requests toolguardd's state.
type AskState func() (state, error)

// Choose selects a backend by name. It never replaces a named backend by another one, nor toolguardd if that is required.
func Choose(name, daemon string, ask AskState) (Backend, error) {
	setting, where, err := daemonSetting(settingsFile)
	if err != nil {
		return Backend{}, err
	}
	by := "--daemon require"
	if setting == "require" {
		if by = where + ` (daemon = "require", for all users of this machine)`; daemon == "none" {
			return Backend{}, fmt.Errorf("%s contradicts --daemon none: leave that out", by)
		}
		daemon = setting
	}
	b, err := find(name, daemon, ask)
	if daemon == "require" {
		if b.RequiredBy = by; err != nil {
			err = fmt.Errorf("%s can't be met: %w", by, err)
		}
	}
	return b, err
}

func find(name, daemon string, ask AskState) (Backend, error) {
	if name == "auto" || name == "" {
		return automatic(daemon, ask)
	}
	if b, ok, err := named(name, daemon, ask); ok {
		return b, err
	}
	return Backend{}, fmt.Errorf("this build has no %s backend; it has: %s", name, strings.Join(Backends, ", "))
}
