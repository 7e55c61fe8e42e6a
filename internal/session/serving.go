package session

import (
	"os"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// Server gives the command something that this process serves: descriptors, with the variables that name them. It's called before the
// command starts.
type Server func(Serving) (*Served, error)

// Serving is what a server needs to know of the session.
type Serving struct {
	ID     string
	Daemon *api.Client       // of the toolguardd that made the session; nil: none did
	Emit   func(event.Event) // adds what all events of the session have, and writes the event
	Env    []string          // of the command

	// Reload puts the running session under another policy; nil: that's impossible, and WhyNot is the reason.
	Reload func(*policy.Compiled) error
	WhyNot string
}

// Served is what one server gives the command.
type Served struct {
	Env   []string   // further variables of the command, whatever the policy says about variables
	Files []*os.File // descriptors that the command gets under the same numbers
	Close func()     // ends it, at the session's end
}
