package seccomp

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// denials returns everything that the filters for c deny, each call once. A call that is always denied isn't also listed with
// conditions.
func denials(c *policy.Compiled, o Backend) ([]denial, error) {
	f := requirementsOf(c, o)
	rs := append(make([]denial, 0, 128), f.argumentRules()...)
	if strictPtrace(c) {
		rs = append(rs, strictPtraceRule())
	}
	rs = appendListed(rs, c, f)
	out := rs[:0]
	for _, r := range rs {
		i := slices.IndexFunc(out, func(o denial) bool { return o.name == r.name })
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
