package egress

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// denial is the body of a denial over HTTP.
type refusal struct {
	Error     string `json:"error"`
	Reason    string `json:"reason"`
	Target    string `json:"target"`
	Method    string `json:"method,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Place     string `json:"place,omitempty"`
	Authority string `json:"authority,omitempty"`
	Note      string `json:"note,omitempty"`
	Allow     string `json:"allow,omitempty"` // what would allow it, as TOML
}

// refusing is a denial of a request with a method.
func refusing(method string, a explain.Answer) refusal {
	r := refusal{Error: "refused by toolguard", Reason: string(a.Reason), Target: a.Target, Method: method, Note: a.Note, Allow: a.Suggest}
	if a.Authority != policy.Builtin {
		r.Authority = a.Authority.String()
	}
	if a.Rule != nil {
		r.Rule, r.Place, r.Authority = a.Rule.ID, a.Rule.Position.String(), a.Rule.Authority.String()
	}
	return r
}

func (r *refusal) body() []byte {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil // strings always can be
	}
	return append(b, '\n')
}

// refuse answers a request that isn't passed on. The connection ends: what follows in it isn't worth reading.
func (k *httpConn) refuse(status int, r refusal) {
	k.endUp()
	body := r.body()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, http.StatusText(status), len(body))
	if r.Method == http.MethodHead {
		body = nil
	}
	_ = k.f.conn.SetWriteDeadline(time.Now().Add(closeTime))
	_, _ = k.f.conn.Write(append([]byte(head), body...))
	k.f.finish()
}
