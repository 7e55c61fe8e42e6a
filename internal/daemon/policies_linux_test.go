package daemon

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// A new policy must be for the folders that the session has had from its start: its processes may have replaced them by symlinks, which the
// compiler of the policy follows.
func TestReloadElsewhere(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	for _, x := range []struct {
		workspace, tmp string
		why            string
	}{
		{"/", "/tmp/toolguard-1", "only the policy of a running session can be changed"}, // no thread is in it
		{"/", "", "only the policy of a running session can be changed"},
		{"/root", "/tmp/toolguard-1", "has / and \"/tmp/toolguard-1\""},
		{"/", "/root", "has / and \"/tmp/toolguard-1\""},
	} {
		asked := *compiled(t, "/etc")
		asked.Workspace, asked.TmpDir = x.workspace, x.tmp
		s := &session{d: d, client: proc.Ended(1), state: api.Starting, record: record{Info: api.Session{Workspace: "/", TmpDir: "/tmp/toolguard-1"}}}
		if err := s.reload(&asked, 0, nil); err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s and %q: %v, not %q", x.workspace, x.tmp, err, x.why)
		}
	}
}

// When a session's policy changes, each nested session is restricted by it or ended, even if that fails for another one.
func TestRestrictNested(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	around := compiled(t, "/etc")
	add := func(number, from uint64, asked *policy.Compiled) *session {
		r := &record{Number: number, From: from, Generation: 1}
		r.Info.ID, r.Info.Workspace = fmt.Sprintf("%016x", number), "/"
		p := policiesOf(around)
		p.asked = asked
		t.Cleanup(func() { runtime.KeepAlive(p) }) // it isn't in a file
		s := d.newSession(r, proc.Ended(0))
		s.recent = weak.Make(p)
		s.over = make(chan struct{})
		close(s.over) // there is nothing in the kernel
		d.sessions[number] = s
		return s
	}
	add(1, 0, around)
	all := []*session{add(2, 1, nil), add(3, 1, compiled(t, "/usr")), add(4, 2, nil)} // the ones without a policy panic; no thread is in the other
	d.restrictNested(1)
	for _, s := range all {
		if !isClosed(s.killed) {
			t.Errorf("session %s isn't ended", s.id)
		}
	}
}

// A session's policies are in memory while they are used, and are read from its files otherwise.
func TestPolicies(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	first, now, asked := compiled(t, "/usr"), compiled(t, "/etc"), compiled(t, "/etc/ssl")
	r := &record{Number: 1, Generation: 1, Sizes: map[uint32]int{1: 5}}
	r.Info.ID = "0000000000000001"
	saved(t, d, r, policiesOf(first))
	r.Generation, r.Sizes = 2, map[uint32]int{1: 5, 2: 7}
	p := &policies{asked, 7, now, map[uint32]*policy.Compiled{1: first, 2: now}}
	saved(t, d, r, p)
	s := d.newSession(r, proc.Ended(0))
	s.recent = weak.Make(p)
	if used, err := s.policies(); used != p || err != nil {
		t.Errorf("%p and not %p, %v", used, p, err)
	}
	runtime.KeepAlive(p)
	p = nil
	unused(t, s)
	found, err := s.policies()
	if err != nil || found.inForce.Digest != now.Digest || found.asked.Digest != asked.Digest || len(found.all) != 2 ||
		found.all[2] != found.inForce || found.all[1].Digest != first.Digest {
		t.Fatalf("%+v, %v", found, err)
	}
	before := s.record
	if err := s.change(func(r *record) { r.Thread = 7; r.Sizes = map[uint32]int{2: 7} }); err != nil || s.record.Thread != 7 {
		t.Errorf("%+v, %v", s.record, err)
	}
	d.removePolicies(&before, &s.record)
	if kept, err := d.load(s.id); err != nil || kept.Thread != 7 {
		t.Errorf("%+v, %v", kept, err)
	}
	unused(t, s)
	if found, err := s.policies(); err != nil || len(found.all) != 1 || found.inForce.Digest != now.Digest {
		t.Errorf("%+v, %v", found, err)
	}
	if entries, err := os.ReadDir(d.folder() + "/" + s.id); err != nil || len(entries) != 2 { // its own file, and the policy's
		t.Errorf("%v, %v", entries, err)
	}
	d.remove(s.id)
	unused(t, s)
	if found, err := s.policies(); found != nil || err == nil {
		t.Errorf("%+v without its file", found)
	}
	if err := s.change(func(r *record) { r.Thread = 8 }); err == nil || s.record.Thread != 7 {
		t.Errorf("%+v, %v", s.record, err)
	}
	if entries, err := os.ReadDir(d.folder()); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A failed reload leaves no file of its policy.
func TestFailedReload(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	before, after := compiled(t, "/etc"), compiled(t, "/usr")
	r := &record{Number: 1, Generation: 1, Sizes: map[uint32]int{1: 1}, Net: &networkRecord{}}
	r.Info.ID, r.Info.Workspace, r.Info.State = "0000000000000001", before.Workspace, api.Running
	saved(t, d, r, policiesOf(before))
	s := d.newSession(r, proc.Ended(0))
	s.denials = &denials.Follower{}
	if err := s.reload(after, 1, nil); err == nil || !strings.Contains(err.Error(), "couldn't be taken over") { // the network
		t.Error(err)
	}
	files, err := os.ReadDir(d.folder() + "/" + s.id)
	if err != nil || len(files) != 2 || files[0].Name() != "policy-1.json" || files[1].Name() != "session.json" {
		t.Errorf("%v, %v", files, err)
	}
	kept, err := d.load(s.id)
	if err != nil || kept.Generation != 1 || s.record.Generation != 1 || kept.Info.Reloads != 0 {
		t.Errorf("%+v, %v; %+v", kept, err, s.record)
	}
}

// policiesOf are the policies of a session with only one policy, which nothing restricts.
func policiesOf(c *policy.Compiled) *policies {
	return &policies{c, 1, c, map[uint32]*policy.Compiled{1: c}}
}

// saved writes a session's files.
func saved(t testing.TB, d *Daemon, r *record, p *policies) {
	t.Helper()
	childtest.Must(t, errors.Join(d.savePolicy(r, p), d.save(r)))
}

// Waiting to read a session's policies doesn't block other requests.
func TestPoliciesAreReadInParallel(t *testing.T) {
	d, c := served(t, DefaultLimits)
	add := func(number uint64) (*session, *policies) {
		r := &record{Number: number, Generation: 1, Sizes: map[uint32]int{1: 1}}
		r.Info.ID = fmt.Sprintf("%016x", number)
		p := policiesOf(compiled(t, "/etc"))
		saved(t, d, r, p)
		s := d.newSession(r, proc.Ended(0))
		s.recent = weak.Make(p)
		close(s.over) // there is nothing in the kernel
		d.mu.Lock()
		d.sessions[number] = s
		d.mu.Unlock()
		return s, p
	}
	waits, _ := add(1)
	other, used := add(2)
	unused(t, waits)
	for range maxBodies {
		d.bodies <- struct{}{}
	}
	found := make(chan error, 1)
	go func() {
		_, err := waits.policies()
		found <- err
	}()
	for waits.finding.TryLock() { // until it looks for them
		waits.finding.Unlock()
		time.Sleep(time.Millisecond)
	}
	var list []api.Session
	if err := c.Do("GET", api.Sessions, nil, &list); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if p, err := other.policies(); p != used || err != nil {
		t.Errorf("another session's: %p and not %p, %v", p, used, err)
	}
	waits.notifyOwner(&event.Event{Kind: event.Denial})
	select {
	case err := <-found:
		t.Fatalf("the other requests have waited: %v", err)
	default:
	}
	for range maxBodies {
		<-d.bodies
	}
	if err := <-found; err != nil {
		t.Error(err)
	}
}

// unused waits until a session's policies are freed.
func unused(t *testing.T, s *session) {
	t.Helper()
	for range 100 {
		if s.recent.Value() == nil {
			return
		}
		runtime.GC()
	}
	t.Fatal("the policies stay in memory")
}
