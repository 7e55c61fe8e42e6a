package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolguard/toolguard/internal/tool/strictjson"
)

// maxAnswer is the size of the largest answer, in bytes.
const maxAnswer = 1 << 20

var errTooLarge = fmt.Errorf("its answer is larger than %d MiB", maxAnswer>>20)

// answer is what a before-hook says.
type answer struct {
	arguments  []strictjson.Member
	block, ask bool
	reason     string
}

// parse reads an answer. Only the forms of the grammar are valid.
func parse(text []byte) (*answer, error) {
	switch {
	case len(text) > maxAnswer:
		return nil, errTooLarge
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("its answer is empty: a hook without an objection answers {}")
	}
	a, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("its answer isn't valid: %w", err)
	}
	return a, nil
}

func parseObject(text []byte) (*answer, error) {
	if err := strictjson.Check(text); err != nil {
		return nil, err
	}
	members, err := strictjson.Members(text)
	if err != nil {
		return nil, err
	}
	a := new(answer)
	given := map[string]bool{}
	for _, m := range members {
		given[m.Key] = true
		if err := a.member(m); err != nil {
			return nil, err
		}
	}
	switch {
	case a.block && a.ask:
		return nil, errors.New("it has both block and ask")
	case a.block && given["arguments"]:
		return nil, errors.New("it has both block and arguments")
	case given["reason"] && !a.block && !a.ask:
		return nil, errors.New("it has a reason without block or ask")
	}
	return a, nil
}

func (a *answer) member(m strictjson.Member) (err error) {
	switch m.Key {
	case "arguments":
		if a.arguments, err = strictjson.Members(m.Value); err != nil {
			return fmt.Errorf("arguments: %w", err)
		}
	case "block", "ask":
		if string(m.Value) != "true" {
			return fmt.Errorf("%s is something else than true: leave it out", m.Key)
		}
		a.block, a.ask = a.block || m.Key == "block", a.ask || m.Key == "ask"
	case "reason":
		if m.Value[0] != '"' || json.Unmarshal(m.Value, &a.reason) != nil {
			return errors.New("reason is no text")
		}
	default:
		return fmt.Errorf("it has the unknown key %q", m.Key)
	}
	return nil
}

// merge puts the members of an object over those of another, key by key.
func merge(into json.RawMessage, members []strictjson.Member) (json.RawMessage, error) {
	old, err := strictjson.Members(into)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, m := range old {
		at[m.Key] = i
	}
	for _, m := range members {
		if i, ok := at[m.Key]; ok {
			old[i].Value = m.Value
		} else {
			old = append(old, m)
		}
	}
	out := []byte{'{'}
	for i, m := range old {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := encode(m.Key)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, bytes.TrimSpace(key)...), ':'), m.Value...)
	}
	out = compact(append(out, '}'))
	if len(out) > maxArguments {
		return nil, fmt.Errorf("they are larger than %d MiB", maxArguments>>20)
	}
	if err := strictjson.Check(out); err != nil {
		return nil, err
	}
	_, err = strictjson.Members(out) // no two keys that differ in case alone
	return out, err
}
