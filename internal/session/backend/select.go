package backend

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Backend is one way to hold a session to its policy.
type Backend struct {
	name    string
	gaps    []string
	report  func(*Backend, *policy.Compiled) []policy.Enforceability
	unseen  func(explain.Question) string // why it denies none of what is asked about; "" where it can. nil: it always can
	Level   int                           // it decides about what Landlock decides about from this ABI on
	Network *Network                      // that it can hold; nil: none
	Skipped error                         // why a better one that is set up here wasn't taken; nil: there's none, or it wasn't wanted
	Maker   Maker                         // of the session in the kernel
	Image   *image.Image                  // of the policy that was reported on, where this process makes the session
	Client  *api.Client                   // where toolguardd does

	Fallback   func() (Backend, error) // what is taken where the session can't be had; nil: nothing is
	RequiredBy string                  // by what this one is; "": by nothing
}

// Maker is who makes a session in the kernel.
type Maker uint8

const (
	nobody      Maker = iota // there is none
	ThisProcess              // this process
	Daemon
)

// AskState is how toolguardd's state is found out.
type AskState func() (state, error)

// Choose finds a backend by name. It never falls back from one that was asked for, nor from toolguardd where that must take part.
func Choose(name, daemon string, asked AskState) (Backend, error) {
	setting, where, err := daemonSetting(settingsFile)
	if err != nil {
		return Backend{}, err
	}
	by := "--daemon require"
	if setting == "require" {
		if by = where + ` (daemon = "require", for everybody on this machine)`; daemon == "none" {
			return Backend{}, fmt.Errorf("%s doesn't go with --daemon none: leave that out", by)
		}
		daemon = setting
	}
	b, err := find(name, daemon, asked)
	if daemon == "require" {
		if b.RequiredBy = by; err != nil {
			err = fmt.Errorf("%s can't be met: %w", by, err)
		}
	}
	return b, err
}

func find(name, daemon string, asked AskState) (Backend, error) {
	if name == "auto" || name == "" {
		return automatic(daemon, asked)
	}
	if b, ok, err := named(name, daemon, asked); ok {
		return b, err
	}
	return Backend{}, fmt.Errorf("this build has no %s backend; it has: %s", name, strings.Join(Backends, ", "))
}
