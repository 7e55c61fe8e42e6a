package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
)

// policies are the policies of a session. Each is in an immutable file in the session's folder.
type policies struct {
	asked   *policy.Compiled // the policy in force without the restrictions of the outer sessions and the host
	size    int              // of the request with it
	inForce *policy.Compiled
	all     map[uint32]*policy.Compiled // the first, and those in force now and before, by generation
}

// fill sets the sizes of the next policy: lines of its image, bytes of its request, and bytes of the outer sessions' policies (around). The
// former image keeps its capacity. The former policy and the first stay.
func (r *record) fill(lines, size, around int) {
	before := r.Sizes
	r.Sizes = map[uint32]int{r.Generation + 1: size + around}
	for _, kept := range []uint32{api.FirstGeneration, r.Generation} {
		if n, ok := before[kept]; ok {
			r.Sizes[kept] = n
		}
	}
	r.Lines, r.Latest, r.Size, r.StoredSize = r.Latest+lines, lines, size, 0
	for _, n := range r.Sizes {
		r.StoredSize += n
	}
}

// policies returns the policies, from memory while they are in use, else from their files. They are immutable.
func (s *session) policies() (*policies, error) {
	s.finding.Lock()
	defer s.finding.Unlock()
	s.mu.Lock()
	recent, r := s.recent.Value(), s.record // a reload has these in use
	s.mu.Unlock()
	if recent != nil {
		return recent, nil
	}
	done, err := s.d.reading(context.Background())
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := s.d.loadPolicies(&r)
	if err != nil {
		return nil, fmt.Errorf("read the policies of session %s: %w", s.id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = weak.Make(found)
	return found, nil
}

// reload changes the session's policy to asked, restricted by the outer sessions'.
func (s *session) reload(asked *policy.Compiled, size int, reloads *int) error {
	s.mu.Lock()
	st, info := s.record.Start, s.record.Info
	s.mu.Unlock()
	if asked.Workspace != info.Workspace || asked.TmpDir != "" && asked.TmpDir != info.TmpDir { // processes of the session may have made symlinks of them
		return reject(409, "the policy is for the workspace %s and the TMPDIR %q, but session %s has %s and %q: check that neither was moved or "+
			"replaced by a symlink", asked.Workspace, asked.TmpDir, s.id, info.Workspace, info.TmpDir)
	}
	by := origin{s.from, s.uid, s.client.PID, s.mounts, true}
	c, err := s.d.restrict(by, &st, asked)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.d.checkNested(s.from, c) != nil { // the outer session's policy has changed meanwhile
		if c, err = s.d.restrict(by, &st, asked); err != nil {
			return err
		}
		if err := s.d.checkNested(s.from, c); err != nil {
			return err
		}
	}
	if now := s.currentState(); s.denials == nil || now == api.Ending {
		return reject(409, "session %s is %s: only the policy of a running session can be changed", s.id, now)
	}
	if n := s.record.Info.Reloads; reloads != nil && *reloads != n {
		return reject(412, "the policy of session %s was replaced %d times, not %d", s.id, n, *reloads)
	}
	if s.record.Flags&^(loader.FlagsOf(c)|s.record.Sockets) != 0 {
		return reject(409, "a running session keeps the new namespaces, internet sockets and kernel calls that it was allowed at its start: end it "+
			"('toolguard sessions kill %s')", s.id)
	}
	if n := s.network; n != nil && c.Intercepts() && !n.Intercepts {
		return reject(409, "tls_intercept can't be turned on for session %s while it runs: its command has no certificate authority; "+
			"end it ('toolguard sessions kill %s') and start it with this policy", s.id, s.id)
	}
	next := s.record.Generation + 1
	img, err := image.New(c, next)
	if err != nil {
		return reject(422, "%v", err)
	}
	former, err := s.policies() // kept in memory until the reload is done: the files may be removed
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(former)
	before, r := s.record, s.record
	r.fill(img.Lines(), size, s.d.sizeOf(s.from))
	done, err := s.d.reserve(s.quotaKey(), usage{lines: max(0, r.Lines-before.Lines), size: max(0, r.StoredSize-before.StoredSize)})
	if err != nil {
		return err
	}
	defer done()
	p := &policies{asked, size, c, map[uint32]*policy.Compiled{api.FirstGeneration: former.all[api.FirstGeneration], before.Generation: former.inForce, next: c}}
	r.Generation = next
	r.Info.Reloads++
	r.Info.Policy, r.Info.Digest, r.Info.Files = c.Name, c.Digest, c.Files
	if err := s.d.savePolicy(&r, p); err != nil {
		return err
	}
	back := func() error {
		err := s.d.save(&before)
		if err == nil {
			s.d.removePolicies(&r, &before)
		}
		return err
	}
	if err := s.d.save(&r); err != nil {
		return errors.Join(err, back())
	}
	if err := s.reloadNetwork(next, c); err != nil {
		return errors.Join(err, back())
	}
	s.denials.Reloaded(next, c)
	if err := s.kernel.Reload(img); err != nil {
		s.denials.Reloaded(before.Generation, former.inForce)
		return errors.Join(err, s.reloadNetwork(before.Generation, former.inForce), back())
	}
	s.mu.Lock()
	s.recent, s.record = weak.Make(p), r
	s.mu.Unlock()
	s.d.removePolicies(&before, &r)
	s.lines.Store(int64(r.Lines))
	s.size.Store(int64(r.StoredSize))
	s.denials.Emit(event.Event{Kind: event.Daemon, Mechanism: "toolguardd", Extra: map[string]string{"what": "the session's policy was changed"}})
	return nil
}
