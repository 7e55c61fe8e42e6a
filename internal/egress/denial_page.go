package egress

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// errorBody is the body of an error response over HTTP.
type errorBody struct {
	Error     string `json:"error"`
	Reason    string `json:"reason"`
	Target    string `json:"target"`
	Method    string `json:"method,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Place     string `json:"place,omitempty"`
	Authority string `json:"authority,omitempty"`
	Note      string `json:"note,omitempty"`
	Allow     string `json:"allow,omitempty"` // the rule that would allow it, as TOML
}

// newErrorBody returns the body for a denied request.
func newErrorBody(method string, a explain.Answer) errorBody {
	r := errorBody{Error: "denied by toolguard", Reason: string(a.Reason), Target: a.Target, Method: method, Note: a.Note, Allow: a.Suggest}
	if a.Authority != policy.Builtin {
		r.Authority = a.Authority.String()
	}
	if a.Rule != nil {
		r.Rule, r.Place, r.Authority = a.Rule.ID, a.Rule.Position.String(), a.Rule.Authority.String()
	}
	return r
}

func (r *errorBody) json() []byte {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil // never: it has only strings
	}
	return append(b, '\n')
}

// respond answers a request with an error. The connection ends, and what follows on it is not read.
func (hc *httpConn) respond(status int, r errorBody) {
	hc.closeUpstream()
	body := r.json()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, http.StatusText(status), len(body))
	if r.Method == http.MethodHead {
		body = nil
	}
	_ = hc.c.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	_, _ = hc.c.conn.Write(append([]byte(head), body...))
	hc.c.finish()
}
