package session

import (
	"os"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// Serving is what a server of the session's calls needs to know of the session.
type Serving struct {
	ID     string
	Daemon *api.Client       // of the toolguardd that made the session; nil: none did
	Emit   func(event.Event) // adds what all events of the session have, and writes the event
	Env    []string          // of the command

	// Reload puts the running session under another policy; nil: that's impossible, and WhyNot is the reason.
	Reload func(*policy.Compiled) error
	WhyNot string
}

// Served is a server of the session's calls.
type Served struct {
	Env   []string // further variables of the command
	File  *os.File // a descriptor that the command gets under the same number; nil: none
	Close func()   // ends it, at the session's end
}
