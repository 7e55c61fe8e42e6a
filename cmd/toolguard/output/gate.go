package output

import (
	"encoding/json"

	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// GateAnswerJSON is what gate prints.
func GateAnswerJSON(a *gate.Answer) message.Answer { return *a.JSON() }

// GateEnd is the JSON of the answer to the end of a call.
type GateEnd struct {
	ID      string `json:"id"`
	Ended   bool   `json:"ended"`
	Message string `json:"message,omitempty"`
}

// GateEndJSON is what gate prints for the end of a call. err is why it isn't recorded.
func GateEndJSON(id string, err error) GateEnd {
	out := GateEnd{ID: id, Ended: err == nil}
	if err != nil {
		out.Message = Clean(err.Error())
	}
	return out
}

// JSONLine writes a value on one line.
func (s *Screen) JSONLine(v any) error {
	enc := json.NewEncoder(s.W)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
