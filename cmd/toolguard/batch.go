package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/policy"
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
	if _, err := b.evaluator(p.tool); err != nil {
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
		line, err := readLine(in, most)
		if errors.Is(err, io.EOF) {
			break
		}
		if long := lineTooLong(0); err != nil && !errors.As(err, &long) {
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
	flags.tool = tool
	c, err := flags.load("")
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
		err = decodeStrict(line, &q)
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
	q, msg := ask(bq.Resource, bq.Action)
	if msg != "" {
		return output.Answer{}, errors.New(msg)
	}
	q.Target, q.Argv = bq.Target, bq.Argv
	switch isCommand := q.Resource == policy.Commands; {
	case isCommand && (len(q.Argv) == 0 || q.Target != ""):
		return output.Answer{}, errors.New(`a command is asked about by "argv" alone`)
	case !isCommand && (q.Target == "" || q.Argv != nil):
		return output.Answer{}, fmt.Errorf(`%s is asked about by "target" alone`, bq.Resource)
	}
	if err := understand(&q); err != nil {
		return output.Answer{}, err
	}
	tool := bq.Tool
	if tool == "" {
		tool = b.flags.tool
	}
	j, err := b.evaluator(tool)
	if err != nil {
		return output.Answer{}, err
	}
	return output.AnswerJSON(j.ask(q)), nil
}

// lineTooLong is the error for a line of more than that many bytes.
type lineTooLong int

func (n lineTooLong) Error() string { return fmt.Sprintf("the line is longer than %d bytes", int(n)) }

// readLine reads the next line that isn't blank, or skips one that has more than most bytes.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	for {
		var line []byte
		long := false
		for {
			part, err := in.ReadSlice('\n')
			if long = long || len(line)+len(part) > most; !long {
				line = append(line, part...)
			}
			if err == nil || (errors.Is(err, io.EOF) && (long || len(line) > 0)) {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
		}
		if long {
			return nil, lineTooLong(most)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// decodeStrict reads one JSON object into the struct at v. encoding/json accepts keys in any case, and the last of several
// equal ones, so that two readers could read the same question differently. decodeStrict rejects both.
func decodeStrict(line []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	fields := map[string]reflect.Value{}
	for i, s := 0, reflect.ValueOf(v).Elem(); i < s.NumField(); i++ {
		fields[s.Type().Field(i).Tag.Get("json")] = s.Field(i)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		f, ok := fields[t.(string)] // a key: the decoder accepts nothing else here
		if !ok {
			return fmt.Errorf("unknown or repeated key %q", t)
		}
		delete(fields, t.(string))
		if err := dec.Decode(f.Addr().Interface()); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return fmt.Errorf("%q can't be a %s", t, wrong.Value)
			}
			return fmt.Errorf("not JSON: %w", err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("not JSON: the object doesn't end")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON object on the line")
	}
	return nil
}
