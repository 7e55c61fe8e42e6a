package output

import (
	"encoding/json"

	"github.com/toolguard/toolguard/internal/tool/gate"
)

// GateAnswer is the JSON of an answer about a tool call.
type GateAnswer struct {
	ID         *string   `json:"id"`
	Decision   string    `json:"decision"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	Rule       *toolRule `json:"rule"`
	Capability string    `json:"capability"`
	Declared   bool      `json:"declared"`
	Risk       string    `json:"risk"`
	Grants     []string  `json:"grants"`
	Suggest    string    `json:"suggest,omitempty"`
	Swallow    bool      `json:"should_swallow"`
	ToModel    string    `json:"error_to_model,omitempty"`
	Metadata   struct {
		Decision string `json:"decision"`
		Path     string `json:"path,omitempty"`
		Root     string `json:"project_root"`
	} `json:"metadata"`
}

// GateAnswerJSON is what gate prints.
func GateAnswerJSON(a *gate.Answer) GateAnswer {
	out := GateAnswer{
		Decision: a.Decision, Reason: a.Reason, Message: Clean(a.Message), Capability: a.Capability, Declared: a.Declared,
		Risk: a.Risk, Grants: append([]string{}, a.Grants...), Suggest: a.Suggest, Swallow: a.Swallow(),
	}
	if a.ID != "" {
		out.ID = &a.ID
	}
	if r := a.Rule; r != nil {
		out.Rule = &toolRule{r.ID, r.Authority.String(), r.At.File, r.At.Line}
	}
	if out.Swallow {
		out.ToModel = a.ToModel()
	}
	out.Metadata.Decision, out.Metadata.Path, out.Metadata.Root = a.MetaDecision(), a.Path, a.Root
	return out
}

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
