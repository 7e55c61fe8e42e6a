package ask

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Server is a connection to a process that serves the calls of one session, or of several.
type Server struct {
	Name    string // for messages
	Several bool   // of several sessions: toolguardd
	Do      func(ctx context.Context, method, path string, body, answer any) error
	Status  func(err error) int // the HTTP status in an error of Do's; 0: there was no answer
}

// Servers is the Source of several servers. find returns those that there are now, the same name for the same one.
func Servers(find func(ctx context.Context) ([]Server, error)) Source { return &servers{find: find} }

type servers struct {
	find func(ctx context.Context) ([]Server, error)
}

// answerTime is how long a server may take to list its approvals; longPoll is how long it's asked to wait for a change.
const (
	answerTime = 2 * time.Second
	longPoll   = 30 * time.Second
	pause      = 500 * time.Millisecond // between two lists of a server that doesn't wait, and after an error
	findAgain  = 2 * time.Second        // between two looks for servers
)

func (s *servers) List(ctx context.Context) ([]message.Approval, error) {
	where, err := s.all(ctx)
	var list []message.Approval
	for _, w := range where {
		list = append(list, w.list...)
	}
	return unique(list), err
}

// listed are the approvals of one server.
type listed struct {
	server Server
	list   []message.Approval
}

// all lists the approvals of all servers. Those that don't answer are left out, unless none does.
func (s *servers) all(ctx context.Context) ([]listed, error) {
	found, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	all, errs := make([]listed, len(found)), make([]error, len(found))
	var wg sync.WaitGroup
	for i, server := range found {
		wg.Go(func() {
			var l message.List
			l, errs[i] = server.list(ctx)
			all[i] = listed{server, l.Approvals}
		})
	}
	wg.Wait()
	if len(errs) > 0 && !slices.Contains(errs, nil) {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// list lists the pending approvals.
func (s *Server) list(ctx context.Context) (l message.List, err error) {
	return l, s.get(ctx, message.Approvals, answerTime, &l)
}

// changes waits for changes since a version, which is 0 at first, and returns the changed approvals.
func (s *Server) changes(ctx context.Context, since uint64) (l message.List, err error) {
	return l, s.get(ctx, fmt.Sprintf("%s?since=%d&wait_ms=%d", message.Approvals, since, longPoll.Milliseconds()), longPoll+answerTime, &l)
}

func (s *Server) get(ctx context.Context, path string, most time.Duration, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := s.Do(ctx, "GET", path, nil, answer); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// Decide finds the server that has the approval. It never asks one that hasn't: an id is the requester's choice.
func (s *servers) Decide(ctx context.Context, id string, d message.Decided) (answer message.Decided, err error) {
	where, err := s.all(ctx)
	if err != nil {
		return answer, err
	}
	has := map[string]Server{} // by session
	for _, w := range where {
		for i := range w.list {
			if a := &w.list[i]; a.ID == id && (has[a.Session].Do == nil || !w.server.Several) {
				has[a.Session] = w.server
			}
		}
	}
	switch len(has) {
	case 0:
		return answer, ErrGone
	case 1:
		for session, s := range has {
			return s.decide(ctx, session, id, d)
		}
	}
	return answer, fmt.Errorf("%d sessions have an approval with the id %s: nothing was decided, as an id is chosen by its requester", len(has), Quote(id))
}

func (s *Server) decide(ctx context.Context, session, id string, d message.Decided) (answer message.Decided, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*answerTime)
	defer cancel()
	err = s.Do(ctx, "POST", s.path(session, id, ""), d, &answer)
	if err == nil {
		return answer, nil
	}
	switch s.Status(err) {
	case 404:
		return answer, ErrGone
	case 409:
		var made message.Decided
		if s.Do(ctx, "GET", s.path(session, id, message.Decision), nil, &made) == nil && made.Decision != nil {
			return answer, &DecidedError{*made.Decision}
		}
		return answer, &DecidedError{}
	}
	return answer, err
}

// path is the path of a request about an approval. A server of several sessions gets the session's id.
func (s *Server) path(session, id, what string) string {
	path := message.Approvals + "/" + url.PathEscape(id) + what
	if s.Several && session != "" {
		path += "?session=" + url.QueryEscape(session)
	}
	return path
}

// Watch follows each server until it no longer answers, and looks for new ones.
func (s *servers) Watch(ctx context.Context, changed func([]message.Approval)) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{changed: changed, lists: map[string][]message.Approval{}, running: map[string]bool{}}
	defer w.wg.Wait()
	defer cancel()
	first := true
	for {
		found, err := s.find(ctx)
		if err != nil {
			return err
		}
		for _, server := range found {
			w.start(ctx, server)
		}
		if first && len(found) == 0 {
			changed(nil)
		}
		first = false
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(findAgain):
		}
	}
}

// watch merges the lists of servers.
type watch struct {
	changed func([]message.Approval)
	wg      sync.WaitGroup
	mu      sync.Mutex
	lists   map[string][]message.Approval
	running map[string]bool
}

// start follows a server, unless it's followed.
func (w *watch) start(ctx context.Context, s Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[s.Name] {
		return
	}
	w.running[s.Name] = true
	w.wg.Go(func() {
		w.follow(ctx, s)
		w.set(s.Name, nil, true)
	})
}

// follow lists until the server doesn't answer. One of several sessions can't be waited for, and is asked again and again.
func (w *watch) follow(ctx context.Context, s Server) {
	version := uint64(0)
	var r recent
	for ctx.Err() == nil {
		l, err := s.list(ctx)
		if err != nil {
			return
		}
		w.set(s.Name, r.add(ctx, &s, l.Approvals), false)
		rest := pause
		if !s.Several {
			changed, err := s.changes(ctx, version)
			if err != nil {
				return
			}
			version = changed.Version
			r.end(changed.Approvals)
			rest = pause / 10 // for servers that report changes without end
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// set stores a server's list and reports all of them. ended: the server doesn't answer any more.
func (w *watch) set(name string, list []message.Approval, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lists[name] = list; ended {
		delete(w.lists, name)
		delete(w.running, name)
	}
	var all []message.Approval
	for _, l := range w.lists {
		all = append(all, l...)
	}
	w.changed(unique(all))
}

// unique sorts a list, and removes what several servers have: a session's process and toolguardd.
func unique(list []message.Approval) []message.Approval {
	Sort(list)
	return slices.CompactFunc(list, func(a, b message.Approval) bool { return a.ID == b.ID && a.Session == b.Session })
}

// recent remembers the approvals that have ended a short time ago, which a server doesn't list.
type recent struct {
	last  []message.Approval
	ended []message.Approval
	until []time.Time
}

// remembered is how long the end of an approval is part of the list.
const remembered = 10 * time.Second

// end adds those of a list that have ended.
func (r *recent) end(list []message.Approval) {
	for _, a := range list {
		same := func(b message.Approval) bool { return a.ID == b.ID && a.Session == b.Session }
		if !Pending(&a, time.Now()) && !slices.ContainsFunc(r.ended, same) {
			r.ended, r.until = append(r.ended, a), append(r.until, time.Now().Add(remembered))
		}
	}
}

// add adds those that have ended to a new list of pending ones.
func (r *recent) add(ctx context.Context, s *Server, list []message.Approval) []message.Approval {
	now := time.Now()
	for len(r.until) > 0 && now.After(r.until[0]) {
		r.until, r.ended = r.until[1:], r.ended[1:]
	}
	has := map[key]bool{}
	for i := range list {
		has[key{list[i].Session, list[i].ID}] = true
	}
	for _, a := range r.last {
		if !s.Several || has[key{a.Session, a.ID}] || !Pending(&a, now) {
			continue
		}
		var made message.Decided
		if s.get(ctx, s.path(a.Session, a.ID, message.Decision), answerTime, &made) == nil && made.Decision != nil {
			a.Decision = made.Decision
			r.end([]message.Approval{a})
		}
	}
	r.last = list
	ended := slices.DeleteFunc(slices.Clone(r.ended), func(a message.Approval) bool { return has[key{a.Session, a.ID}] })
	return append(slices.Clone(list), ended...)
}
