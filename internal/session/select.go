package session

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// backend is one way to hold a session to its policy.
type backend struct {
	name    string
	gaps    []string
	cover   func(*backend, *policy.Compiled) []policy.Coverage
	unseen  func(explain.Question) string // why it denies none of what is asked about; "" where it can. nil: it always can
	level   int                           // it decides about what Landlock decides about from this ABI on
	net     *heldNetwork                  // that it can hold; nil: none
	skipped error                         // why a better one that is set up here wasn't taken; nil: there's none, or it wasn't wanted
	maker   maker                         // of the session in the kernel
	image   *image.Image                  // of the policy that was reported on, where this process makes the session
	client  *api.Client                   // where toolguardd does

	without  func() (backend, error) // what is taken where the session can't be had; nil: nothing is
	required string                  // by what this one is; "": by nothing
}

// maker is who makes a session in the kernel.
type maker uint8

const (
	nobody    maker = iota // there is none
	ourselves              // this process
	toolguardd
)

// asking is how toolguardd's state is found out.
type asking func() (state, error)

// choose finds a backend by name. It never falls back from one that was asked for, nor from toolguardd where that must take part.
func choose(name, daemon string, asked asking) (backend, error) {
	setting, where, err := daemonSetting(settingsFile)
	if err != nil {
		return backend{}, err
	}
	by := "--daemon require"
	if setting == "require" {
		if by = where + ` (daemon = "require", for everybody on this machine)`; daemon == "none" {
			return backend{}, fmt.Errorf("%s doesn't go with --daemon none: leave that out", by)
		}
		daemon = setting
	}
	b, err := find(name, daemon, asked)
	if daemon == "require" {
		if b.required = by; err != nil {
			err = fmt.Errorf("%s can't be met: %w", by, err)
		}
	}
	return b, err
}

func find(name, daemon string, asked asking) (backend, error) {
	if name == "auto" || name == "" {
		return automatic(daemon, asked)
	}
	if b, ok, err := named(name, daemon, asked); ok {
		return b, err
	}
	return backend{}, fmt.Errorf("this build has no %s backend; it has: %s", name, strings.Join(Backends, ", "))
}
