package serve

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/api/http1"
)

// idleForwarded is how many connections to toolguardd wait for a request.
const idleForwarded = 2

// The pauses between attempts to connect to a toolguardd that isn't there: it may be restarting.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// Forwarded answers the requests that toolguardd forwards to a session of this process, over connections that this process opens to it. It
// continues after a restart of toolguardd. It returns ErrClosed after Close, and an error when toolguardd rejects the connections: the session has
// ended, or toolguardd has another version. It must not be called from a thread of the session.
func (s *Server) Forwarded(client *api.Client, session string) error {
	idle := make(chan struct{}, idleForwarded)
	wait := firstPause
	for {
		for _, slots := range []chan struct{}{idle, s.slots[forwarded]} {
			select {
			case slots <- struct{}{}:
			case <-s.ctx.Done():
				return ErrClosed
			}
		}
		stream, err := (&api.Client{Socket: client.Socket}).Hijack("POST", api.Sessions+"/"+session+api.Calls)
		if err == nil {
			wait = firstPause
			go func() {
				_ = s.serve(stream.Conn(), forwarded, forwardedPeer, sync.OnceFunc(func() { <-idle }))
			}()
			continue
		}
		<-s.slots[forwarded]
		<-idle
		if r := (*api.StatusError)(nil); errors.As(err, &r) && r.Status < 500 && r.Status != 429 {
			return err
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, lastPause)
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// forwardedPeer is the peer that toolguardd names.
func forwardedPeer(h *http1.Head) (p Peer, err error) {
	field := func(name string) string { return h.Fields[strings.ToLower(name)] }
	uid, uidErr := strconv.Atoi(field(api.ForwardedUID))
	pid, pidErr := strconv.Atoi(field(api.ForwardedPID))
	exe, exeErr := url.PathUnescape(field(api.ForwardedExe))
	isConfined := field(api.ForwardedConfined)
	p = Peer{UID: uid, PID: pid, Exe: exe, Confined: isConfined != "0", Session: field(api.ForwardedSession)}
	switch {
	case errors.Join(uidErr, pidErr, exeErr) != nil, isConfined != "0" && isConfined != "1", p.Confined && p.Session == "":
		return Peer{}, http1.Reject(400, "toolguardd doesn't name the client: it has another version")
	case p.Confined:
		p.Owner = ownerOf(p.Session)
	default:
		p.Owner = "user " + strconv.Itoa(uid)
	}
	return p, nil
}
