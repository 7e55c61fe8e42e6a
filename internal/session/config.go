package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// Config configures a run.
type Config struct {
	Policy        *policy.Compiled
	System        fspath.FileSystem // the file tree that the policy was compiled for
	Tool, Agent   string
	Backend       string               // "auto" or a backend's name
	Daemon        string               // whether toolguardd must ("require"), may ("auto") or may not ("none") be used
	AllowDegraded []string             // IDs of rules that need not be enforced
	Argv          []string             // the command; Argv[0] is looked up through PATH
	Env           []string             // the environment before the policy is applied
	Proxies       []api.Proxy          // set by Run: the proxies in the variables that the command gets
	PassFDs       []int                // descriptors beyond 0, 1 and 2 that the command keeps, under the same numbers
	Events        *event.Queue         // nil: there is no reader
	Linger        bool                 // leave the command's other processes running when it exits
	Serve         []Server             // what this process serves to the command
	Begins        func(backend.Report) // gets the report before the command starts; may be nil
	Notice        func(string)         // shows one line to people, from any goroutine; may be nil
}

// Result is the result of a run.
type Result struct {
	Session string // the id; "" if there was no session
	Code    int    // the exit status to return: the command's, or 128+N after signal N
	denials.Summary
	NoUnix     bool     // unix sockets can't be made, because the backend can't decide about them by path
	RemovedEnv []string // names of the removed variables
	Orphans    int      // orphans that were ended after the first process
}

// ErrUnrecorded is the error if the start can't be recorded: nothing was started.
var ErrUnrecorded = errors.New("nothing was started, as the events can't be written")

// NotEnforceable is the error where the policy can't be enforced on this machine: nothing was started. Exit status 125.
type NotEnforceable struct{ Report backend.Report }

func (e *NotEnforceable) Error() string {
	return fmt.Sprintf("%d rules can't be enforced by the %s backend", len(e.Report.Blocking), e.Report.Backend)
}

func (c *Config) notice(format string, args ...any) {
	if c.Notice != nil {
		c.Notice(fmt.Sprintf(format, args...))
	}
}

// canonical returns the path of a file with symlinks and ".." resolved in order, or the unchanged path if that fails.
func (c *Config) canonical(file string) string {
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(file) {
		file = dir + "/" + file
	}
	if real, err := c.Policy.ResolveTarget(c.System, file, true); err == nil {
		return real
	}
	return file
}

// recordTime bounds how long a start waits until its event is written. A slow pipe gets it later, or the loss is reported at the end.
const recordTime = 100 * time.Millisecond

// recorded returns an error if the session's events can't be written.
func (c *Config) recorded() error {
	if c.Events == nil {
		return nil
	}
	if err := c.Events.Await(recordTime); err != nil {
		return fmt.Errorf("%w: %w; write them to another file, or remove --events", ErrUnrecorded, err)
	}
	return nil
}
