package output

import "github.com/toolguard/toolguard/internal/session"

// toolRun is what a local tool did.
type toolRun struct {
	OK        bool            `json:"ok"`
	Status    int             `json:"status"`    // its exit status
	Truncated bool            `json:"truncated"` // something of the following isn't there
	Denials   []trailerDenial `json:"denials"`
	Stdout    string          `json:"stdout"`
	Stderr    string          `json:"stderr"`
}

// ToolRunJSON returns what a local tool did, for machines.
func ToolRunJSON(r session.Result, code int, stdout, stderr []byte, truncated bool) any {
	list, more := trailerDenials(r)
	return toolRun{code == 0, code, truncated || more > 0, list, string(stdout), string(stderr)}
}
