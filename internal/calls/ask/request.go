package ask

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Requested is what became of a request for a grant.
type Requested struct {
	Approval message.Approval `json:"approval"` // with the decision, if there is one
	Effect   string           `json:"effect,omitempty"`
	Open     bool             `json:"open"` // nobody has decided yet
}

// Request requests a grant from the process that serves the session's calls, and waits for the decision: wait long, or, if that's
// negative, until the request expires. The same request again is the same approval.
func Request(ctx context.Context, do func(ctx context.Context, method, path string, body, answer any) error, g message.Grant, wait time.Duration) (r Requested, err error) {
	if g.ID == "" {
		text, err := json.Marshal(g)
		if err != nil {
			return r, err
		}
		g.ID = fmt.Sprintf("%x", sha256.Sum256(text))[:32]
	}
	if err := do(ctx, "POST", message.Approvals, g, &r.Approval); err != nil {
		return r, err
	}
	end := time.Now().Add(wait)
	for r.Approval.Decision == nil {
		now := time.Now()
		expires := time.UnixMilli(r.Approval.Expires)
		if !Pending(&r.Approval, now) {
			return r, nil
		}
		rest := longPoll
		if r.Approval.Expires != 0 {
			rest = min(rest, expires.Sub(now)+time.Second)
		}
		if wait >= 0 {
			rest = min(rest, end.Sub(now))
		}
		rest = max(rest, 0)
		var made message.Decided
		path := fmt.Sprintf("%s/%s%s?wait_ms=%d", message.Approvals, url.PathEscape(r.Approval.ID), message.Decision, rest.Milliseconds())
		switch err := do(ctx, "GET", path, nil, &made); {
		case Status(err) == 404:
			r.Approval.Expires = min(r.Approval.Expires, now.UnixMilli()) // expired, or withdrawn
			return r, nil
		case err != nil:
			return r, err
		}
		r.Approval.Decision, r.Effect = made.Decision, made.Effect
		if r.Approval.Decision == nil && wait >= 0 && !time.Now().Before(end) {
			r.Open = made.Pending
			return r, nil
		}
		if r.Approval.Decision == nil && time.Since(now) < rest/2 { // of a server that doesn't wait
			select {
			case <-ctx.Done():
				return r, ctx.Err()
			case <-time.After(pause):
			}
		}
	}
	return r, nil
}
