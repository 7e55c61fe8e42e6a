package main

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/jsonline"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/access"
)

// batchLine is the most bytes that a question may have.
const batchLine = 1 << 20

// batchError is the answer to an invalid line.
type batchError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// batchAnswer is the answer to a valid one.
type batchAnswer struct {
	ID json.RawMessage `json:"id"`
	output.Answer
}

// batch answers JSON lines until there are no more. The exit status is the worst of all answers, so that a caller that reads
// nothing else doesn't mistake a denial for an answer of allow.
func (a *app) batch(p *policyFlags, by *backendFlags) error {
	c, own, err := a.asked(p)
	if err != nil {
		return err
	}
	b := &batcher{flags: p, own: own, evaluators: map[string]*evaluator{p.Tool: by.evaluator(c)}, by: by}
	if own != nil {
		b.evaluators[own.Tool] = b.evaluators[p.Tool]
	}
	return a.answerLines(batchLine, b.reply)
}

// answerLines answers JSON lines until there are no more. The exit status is the worst of all answers.
func (a *app) answerLines(most int, reply func(line []byte, err error) (answer any, code int)) error {
	worst, err := jsonline.Answer(a.in, a.out.W, most, reply)
	if err == nil && worst != 0 {
		err = exitStatus(worst)
	}
	return err
}

// batcher answers questions, each under the policy of its tool.
type batcher struct {
	flags      *policyFlags
	own        *access.Context // of the session in which this process is; nil: the flags select the policy
	by         *backendFlags
	evaluators map[string]*evaluator
}

func (b *batcher) evaluator(tool string) (*evaluator, error) {
	if j := b.evaluators[tool]; j != nil {
		return j, nil
	}
	if b.own != nil {
		return nil, fmt.Errorf("the policy of this session is for the tool %s: name a policy (--policy) to ask about another one", b.own.Tool)
	}
	flags := *b.flags
	flags.Tool = tool
	c, err := flags.Load("")
	if err != nil {
		return nil, err
	}
	b.evaluators[tool] = b.by.evaluator(c)
	return b.evaluators[tool], nil
}

// reply answers one line.
func (b *batcher) reply(line []byte, err error) (any, int) {
	var q explain.Line
	if err == nil {
		err = jsonline.Decode(line, &q)
	}
	if q.ID == nil {
		q.ID = json.RawMessage("null")
	}
	var a output.Answer
	if err == nil {
		a, err = b.answer(&q)
	}
	if err != nil {
		return batchError{q.ID, err.Error()}, exitTrouble
	}
	if a.Decision != "allow" {
		return batchAnswer{q.ID, a}, exitNo
	}
	return batchAnswer{q.ID, a}, 0
}

func (b *batcher) answer(bq *explain.Line) (output.Answer, error) {
	q, err := bq.Parse(policyload.Home())
	if err != nil {
		return output.Answer{}, err
	}
	tool := cmp.Or(bq.Tool, b.flags.Tool)
	j, err := b.evaluator(tool)
	if err != nil {
		return output.Answer{}, err
	}
	a, here := j.ask(q)
	out := output.AnswerJSON(a, here)
	out.Grants = granted(b.own, q, &a)
	return out, nil
}
