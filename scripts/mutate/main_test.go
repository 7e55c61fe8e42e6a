package main

import (
	"regexp"
	"strings"
	"testing"
)

// What the tests of testdata/sign leave unnoticed: a boundary, a condition that they never need, and what they never reach. They notice the
// other changes, also one that never ends and one in a child.
const unnoticed = `scripts/mutate/testdata/sign/sign.go:9:9: n < 0 -> n <= 0
scripts/mutate/testdata/sign/sign.go:11:13: n > 0 && n <= limit -> n > 0 || n <= limit
scripts/mutate/testdata/sign/sign.go:11:9: n > 0 -> n >= 0
scripts/mutate/testdata/sign/sign.go:11:18: n <= limit -> n < limit
scripts/mutate/testdata/sign/sign.go:31:11: n + 1 -> n - 1  (no test reaches it)

 changes noticed percent seconds
      14       9    64.3       N  scripts/mutate/testdata/sign
`

func TestSign(t *testing.T) {
	t.Chdir("../..")
	var out strings.Builder
	err := run(&out, 2, []string{"scripts/mutate/testdata/sign"})
	if err == nil || !strings.Contains(err.Error(), "less than 85 % noticed in scripts/mutate/testdata/sign") {
		t.Error(err)
	}
	got := regexp.MustCompile(` *\d+(  \S+\n)$`).ReplaceAllString(out.String(), "       N$1")
	if got != unnoticed {
		t.Errorf("got:\n%s\nwant:\n%s", got, unnoticed)
	}
	// A file whose changes are all noticed is enough.
	out.Reset()
	if err := run(&out, 2, []string{"scripts/mutate/testdata/sign/even.go"}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
