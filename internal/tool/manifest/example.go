package manifest

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// names are those that the patterns of both manifests are about.
type names struct {
	exact map[string]bool
	globs []string // with *
}

func (n *names) add(pattern string) {
	switch {
	case n.exact == nil:
		n.exact = map[string]bool{}
		n.add(pattern)
	case !strings.Contains(pattern, "*"):
		n.exact[pattern] = true
	case !slices.Contains(n.globs, pattern):
		n.globs = append(n.globs, pattern)
	}
}

// moreExamples is how many examples are tried in addition to the names that are taken.
const moreExamples = 2000

// example returns a name that a pattern with * matches and that the manifests don't name. Of the patterns, only those match it that match
// every name of the pattern, if there is such a name: so nobody can write a rule about the names that are asked about. An alphabet is of the
// letters that names have, and first is the preferred text for *.
func (n *names) example(pattern, first, alphabet string) string {
	best, fewest := "", -1
	for i := range len(n.exact) + moreExamples {
		text := first
		if i > 0 {
			text = numbered(i, alphabet)
		}
		name := strings.ReplaceAll(pattern, "*", text)
		if n.exact[name] {
			continue
		}
		others := 0
		for _, g := range n.globs {
			if toolset.Glob(g, name) && !toolset.Glob(g, pattern) {
				others++
			}
		}
		if fewest < 0 || others < fewest {
			best, fewest = name, others
		}
		if others == 0 {
			break
		}
	}
	return best
}

// numbered returns the text of a number from 1: each letter of an alphabet, then each two, and so on.
func numbered(n int, alphabet string) string {
	var text []byte
	for ; n > 0; n = (n - 1) / len(alphabet) {
		text = append(text, alphabet[(n-1)%len(alphabet)])
	}
	return string(text)
}
