// Package host puts together what serves the calls of a session, in the toolguard that began it: the policy with what people have given for this
// start, the engine, the state, the sockets.
package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/calls"
	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/calls/socket"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/callstate"
)

// Config is what a server of calls needs to know of the command line.
type Config struct {
	Options *policyload.Options              // with Own as OwnOf
	Ask     bool                             // --ask
	Serves  func(path string) error          // gets the path of the socket outside the session; nil: nobody needs it
	Notice  func(format string, args ...any) // shows one line to people
	Check   func(*policy.Compiled) error     // why the policy can't be enforced here; nil if it can
}

// Server serves the calls of a session.
type Server struct {
	*Config
	engine    *tool.Engine
	judged    *policyload.Options // what the engine compiles
	approvals *callstate.Approvals
	rules     []string             // that were given for the next start, which is this one
	until     map[string]time.Time // for how long
	bare      *policy.Compiled     // the policy without them
}

// Prepare prepares to serve a session's calls, and returns the policy with the rules that were given for this start. It's nil for a policy
// that is about no calls.
func Prepare(f *Config, c *policy.Compiled) (*Server, *policy.Compiled, error) {
	if f.Ask && !f.Options.Document.Tools().Approvals(f.Options.Agent).Given {
		return nil, nil, errors.New("--ask: the policy has no [approvals], so nobody would be asked: add it, for example [approvals] with timeout = \"2m\"; 'toolguard policy init' writes a policy to begin with")
	}
	if !slices.ContainsFunc(c.ToolKeys, func(k policy.Key) bool { return k.OnCalls() }) {
		return nil, c, nil
	}
	state, err := StateFolder()
	if err != nil {
		return nil, nil, err
	}
	store, err := Store(f.Options.Document.Tools(), filepath.Join(state, "calls.json"))
	if err != nil {
		return nil, nil, err
	}
	if err := calls.CheckHooks(f.Options.Document.Tools(), os.Environ(), c); err != nil { // they would load the command's code
		return nil, nil, err
	}
	s := &Server{Config: f, approvals: callstate.NewApprovals(filepath.Join(state, "approvals.json"), time.Now)}
	given, err := s.approvals.TakeRules(c.Workspace, f.Options.Agent, s.policies())
	if err != nil {
		return nil, nil, err
	}
	s.bare, s.until = c, map[string]time.Time{}
	c = s.give(c, given)
	judged := *f.Options
	s.judged = &judged
	if s.engine, err = NewEngine(s.judged, c, store, "", true); err != nil {
		return nil, nil, err
	}
	if len(s.rules) > 0 {
		s.apply(calls.GrantedText(s.rules))
	}
	return s, c, nil
}

// Own returns the files that no command may change under a policy that is about calls: the state of calls, and the programs of hooks. Backends may
// leave the user's folders open, and who could write the state could allow any call.
func Own(doc *policyfile.Document) (list []string) {
	if state := policyload.OwnFolders().State; state != "" {
		list = append(list, state)
	}
	return append(list, calls.HookFiles(doc.Tools(), os.Environ())...)
}

// StateFolder returns the user's folder for the state of calls.
func StateFolder() (string, error) {
	dir := policyload.OwnFolders().State
	if dir == "" {
		return "", errors.New("the policy is about tool calls, whose state is in the user's home: HOME isn't an absolute path")
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// policies are the absolute names of the session's policies.
func (s *Server) policies() []string { return s.Options.Recorded().Policies }

// load compiles the session's policy with the text of one more file.
func (s *Server) load(c *policy.Compiled, granted []byte) (*policy.Compiled, error) {
	if len(s.Options.Files) == 0 && len(s.Options.Presets) == 0 {
		return nil, errors.New("the built-in default policy can't be extended: 'toolguard policy init' writes one that can")
	}
	o, name := s.with(granted)
	with, err := o.Load(c.TmpDir)
	if err != nil {
		return nil, err
	}
	with.Name = c.Name
	return with, errors.Join(calls.CheckGiven(with, name, policyload.Home()), calls.CheckSame(c, with))
}

// with are the session's policies and the text of one more file, which doesn't exist.
func (s *Server) with(granted []byte) (o policyload.Options, name string) {
	o, name = *s.Options, filepath.Join(policyload.OwnFolders().State, "granted.toml")
	o.Ensure, o.Snapshot, o.Files = false, o.Snapshot.With(name, granted), append(slices.Clip(o.Files), name)
	return o, name
}

// give returns the policy with the rules that were given for this start. One that can't be used isn't in force, and a message has the reason: what
// a session has asked for, and what it does to the files that it can write, mustn't keep later ones from starting.
func (s *Server) give(c *policy.Compiled, given []callstate.Addition) *policy.Compiled {
	for _, r := range given {
		with, err := s.load(c, calls.GrantedText(append(slices.Clip(s.rules), r.Rule)))
		if err == nil && s.Check != nil {
			err = s.Check(with)
		}
		if err != nil {
			s.Notice("a rule that was given for this start isn't in force: %v: %s", err, strings.ReplaceAll(strings.TrimSpace(r.Rule), "\n", " "))
			continue
		}
		c, s.rules = with, append(s.rules, r.Rule)
		if r.Expires > 0 {
			s.until[r.Rule] = time.UnixMilli(r.Expires)
		}
	}
	return c
}

// apply makes calls be judged with the text of one more file.
func (s *Server) apply(granted []byte) {
	*s.judged, _ = s.with(granted)
	s.engine.Recompile()
}

// Begin serves the calls of a session.
func (s *Server) Begin(of session.Serving, c *policy.Compiled) (*session.Served, error) {
	record := &calls.Recorder{Emit: of.Emit}
	notice := func(text string) { s.Notice("%s", text) }
	config := calls.Config{
		Session: of.ID, Agent: s.Options.Agent, Engine: s.engine, Approvals: approval.New(approval.RealClock(), rand.Reader), Stored: s.approvals,
		Hooks: calls.NewHooks(s.engine.Set, of.ID, os.Environ(), record), Record: record,
		Bind: &calls.Binder{Env: of.Env, Shell: s.engine.Gate.Shell, Workspace: c.Workspace, Home: policyload.Home()},
	}
	if table := s.engine.Set.Approvals(s.Options.Agent); table.Given {
		config.Grants = &calls.Grants{
			Home: policyload.Home(), System: hostfs.Machine{}, Timeout: table.Timeout, Given: s.rules, Until: s.until, Bare: s.bare, Reload: of.Reload, WhyNot: of.WhyNot, Apply: s.apply,
			Load:   func(granted []byte) (*policy.Compiled, error) { return s.load(c, granted) },
			Failed: func(err error) { notice(err.Error()) },
			Keep: func(rule callstate.Stored) error {
				return s.approvals.AddRule(&callstate.Addition{Stored: rule, Workspace: c.Workspace, Agent: s.Options.Agent, Policies: s.policies()})
			},
		}
	}
	if len(s.until) > 0 && (config.Grants == nil || of.Reload == nil) {
		notice("rules that were given for a time stay in force until the end of this session: " + of.WhyNot)
	}
	service := calls.New(config)
	server := serve.New(of.ID, service, notice)
	end := func() {
		_ = server.Close()
		service.Close()
	}
	path, err := server.Outside(socket.Folders(policyload.Home(), os.Getenv))
	if err == nil && s.Serves != nil {
		err = s.Serves(path)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("make the socket for approvals: %w", err)
	}
	out := &session.Served{Close: end}
	if of.Daemon != nil {
		go func() { _ = server.Forwarded(of.Daemon, of.ID) }()
		out.Env = []string{"TOOLGUARD_SOCKET=" + api.Socket}
		return out, nil
	}
	file, err := server.Descriptor()
	if err != nil {
		end()
		return nil, err
	}
	out.Files, out.Env = []*os.File{file}, []string{fmt.Sprintf("TOOLGUARD_SOCKET=%s%d", socket.Descriptor, file.Fd())}
	return out, nil
}
