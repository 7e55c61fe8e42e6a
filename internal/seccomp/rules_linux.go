package seccomp

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// refusals is everything that the filters for c refuse, each call once. A call that is refused without conditions
// isn't there with conditions too.
func refusals(c *policy.Compiled, o Others) ([]refusal, error) {
	f := factsOf(c, o)
	rs := append(make([]refusal, 0, 128), f.conditional()...)
	if strictPtrace(c) {
		rs = append(rs, ptraceStrict())
	}
	rs = appendListed(rs, c, f)
	out := rs[:0]
	for _, r := range rs {
		i := slices.IndexFunc(out, func(o refusal) bool { return o.name == r.name })
		switch {
		case i < 0:
			out = append(out, r)
		case out[i].when == nil:
		case r.when == nil:
			out[i] = r
		default:
			return nil, fmt.Errorf("two sets of conditions for the system call %s", r.name)
		}
	}
	return out, nil
}
