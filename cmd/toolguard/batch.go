package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/jsonline"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/policyload"
)

// batchLine is the most bytes that a question may have.
const batchLine = 1 << 20

// batchQuestion is one line in.
type batchQuestion struct {
	ID       json.RawMessage `json:"id"`
	Tool     string          `json:"tool"`
	Resource string          `json:"resource"`
	Action   string          `json:"action"`
	Target   string          `json:"target"`
	Argv     []string        `json:"argv"`
}

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
	if err := a.useUserPolicy(p); err != nil {
		return err
	}
	b := &batcher{flags: p, by: by, evaluators: map[string]*evaluator{}}
	if _, err := b.evaluator(p.Tool); err != nil {
		return err
	}
	return a.answerLines(batchLine, b.reply)
}

// answerLines answers JSON lines of at most so many bytes until there are no more, each with one line. A line that is longer is answered
// with its error. The exit status is the worst of all answers.
func (a *app) answerLines(most int, reply func(line []byte, err error) (answer any, code int)) error {
	in := bufio.NewReaderSize(a.in, 64<<10)
	out := bufio.NewWriter(a.out.W)
	lines := &output.Screen{W: out}
	worst := 0
	for {
		line, err := jsonline.Read(in, most)
		if errors.Is(err, io.EOF) {
			break
		}
		if long := jsonline.TooLong(0); err != nil && !errors.As(err, &long) {
			return err
		}
		answer, code := reply(line, err)
		worst = max(worst, code)
		if err := lines.JSONLine(answer); err != nil {
			return err
		}
		if in.Buffered() == 0 { // the client may wait for the answer before it asks the next question
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if worst != 0 {
		return exitStatus(worst)
	}
	return nil
}

// batcher answers questions, each under the policy of its tool.
type batcher struct {
	flags      *policyFlags
	by         *backendFlags
	evaluators map[string]*evaluator
}

func (b *batcher) evaluator(tool string) (*evaluator, error) {
	if j := b.evaluators[tool]; j != nil {
		return j, nil
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
	var q batchQuestion
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

func (b *batcher) answer(bq *batchQuestion) (output.Answer, error) {
	q, err := explain.ParseQuestion(bq.Resource, bq.Action)
	if err != nil {
		return output.Answer{}, err
	}
	q.Target, q.Argv = bq.Target, bq.Argv
	switch isCommand := q.Resource == policy.Commands; {
	case isCommand && (len(q.Argv) == 0 || q.Target != ""):
		return output.Answer{}, errors.New(`a command is asked about by "argv" alone`)
	case !isCommand && (q.Target == "" || q.Argv != nil):
		return output.Answer{}, fmt.Errorf(`%s is asked about by "target" alone`, bq.Resource)
	}
	if err := q.NormalizeTarget(policyload.Home()); err != nil {
		return output.Answer{}, err
	}
	tool := bq.Tool
	if tool == "" {
		tool = b.flags.Tool
	}
	j, err := b.evaluator(tool)
	if err != nil {
		return output.Answer{}, err
	}
	return output.AnswerJSON(j.ask(q)), nil
}
