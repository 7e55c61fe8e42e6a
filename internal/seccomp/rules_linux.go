package seccomp

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
)

// refusals is everything that the filters for c refuse, each call once. A call that is refused without conditions
// isn't there with conditions too.
func refusals(c *policy.Compiled, abi int) ([]refusal, error) {
	f := factsOf(c, abi)
	out := make([]refusal, 0, 128)
	at := make(map[string]int, 128)
	add := func(r refusal) error {
		if r.Resource == "" {
			r.Resource = "syscall"
		}
		if r.Reason == "" {
			r.Reason = policy.SyscallDenied
		}
		i, dup := at[r.name]
		switch {
		case !dup:
			at[r.name] = len(out)
			out = append(out, r)
		case out[i].when == nil:
		case r.when == nil:
			out[i] = r
		default:
			return fmt.Errorf("two sets of conditions for the system call %s", r.name)
		}
		return nil
	}
	conditional := f.conditional()
	if strictPtrace(c) {
		conditional = append(conditional, ptraceStrict())
	}
	for _, r := range conditional {
		if err := add(r); err != nil {
			return nil, err
		}
	}
	for _, d := range listed(c) {
		cause := Cause{ID: d.group.id, Text: d.group.text, Place: d.place}
		if err := add(refusal{name: d.name, Cause: cause, errno: d.group.errno}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
