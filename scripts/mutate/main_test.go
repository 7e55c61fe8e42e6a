package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// survivors are the mutants that the tests of testdata/sign and testdata/next don't kill: a boundary, a condition that they never
// need, and one that none reaches. They kill the others, also one that never ends, one in a child, and one by the other package.
const survivors = `scripts/mutate/testdata/sign/sign.go:9:9: n < 0 -> n <= 0
scripts/mutate/testdata/sign/sign.go:11:13: n > 0 && n <= limit -> n > 0 || n <= limit
scripts/mutate/testdata/sign/sign.go:11:9: n > 0 -> n >= 0
scripts/mutate/testdata/sign/sign.go:11:18: n <= limit -> n < limit
scripts/mutate/testdata/sign/sign.go:36:11: n - 1 -> n + 1  (no test reaches it)

 mutants  killed percent seconds
      15      10    66.7       N  scripts/mutate/testdata/sign
`

func TestSign(t *testing.T) {
	t.Chdir("../..")
	checkedBy["scripts/mutate/testdata/sign"] = []string{"scripts/mutate/testdata/next"}
	var out strings.Builder
	err := run(&out, 2, []string{"scripts/mutate/testdata/sign"})
	if err == nil || !strings.Contains(err.Error(), "score is below 85 % in scripts/mutate/testdata/sign") {
		t.Error(err)
	}
	got := regexp.MustCompile(` *\d+(  \S+\n)$`).ReplaceAllString(out.String(), "       N$1")
	if got != survivors {
		t.Errorf("got:\n%s\nwant:\n%s", got, survivors)
	}
	// The mutants of this file are all killed.
	out.Reset()
	if err := run(&out, 2, []string{"scripts/mutate/testdata/sign/even.go"}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A renamed package would be missing from the score.
func TestPackages(t *testing.T) {
	t.Chdir("../..")
	for pkg, others := range checkedBy {
		for _, folder := range append(others, pkg) {
			if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				t.Errorf("checkedBy names %s: %v", folder, err)
			}
		}
	}
	for _, folder := range slices.Concat(deciding, integrated) {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("there is no %s: %v", folder, err)
		}
	}
}
