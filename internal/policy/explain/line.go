package explain

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
)

// Line is a question as a line of JSON.
type Line struct {
	ID       json.RawMessage `json:"id"`
	Tool     string          `json:"tool"`
	Resource string          `json:"resource"`
	Action   string          `json:"action"`
	Target   string          `json:"target"`
	Argv     []string        `json:"argv"`
}

// Parse returns the question. home is the user's, or "". An error is that the line isn't a question.
func (l *Line) Parse(home string) (Question, error) {
	q, err := ParseQuestion(l.Resource, l.Action)
	if err != nil {
		return q, err
	}
	q.Target, q.Argv = l.Target, l.Argv
	switch isCommand := q.Resource == policy.Commands; {
	case isCommand && (len(q.Argv) == 0 || q.Target != ""):
		return q, errors.New(`a command is asked about by "argv" alone`)
	case !isCommand && (q.Target == "" || q.Argv != nil):
		return q, fmt.Errorf(`%s is asked about by "target" alone`, l.Resource)
	}
	return q, q.NormalizeTarget(home)
}
