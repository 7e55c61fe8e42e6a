// Package nearest finds the word that was probably intended, and lists those that can be.
package nearest

import (
	"strconv"
	"strings"
)

// Hint is a hint for a key or word that isn't one of names: the nearest of them, or, after intro, all of them. With an
// empty intro, and nothing near, it's empty.
func Hint(got string, names []string, intro string) string {
	for _, n := range names {
		if strings.EqualFold(n, got) {
			return "case matters: it is " + n
		}
	}
	for _, n := range names {
		if len(got) >= 3 && strings.HasPrefix(n, got) {
			return "did you mean " + strconv.Quote(n) + "?"
		}
	}
	best, least := "", 1+min(len(got), max(1, min(len(got), 9)/3))
	for _, n := range names {
		if c := Distance(got, n, least); c < least {
			best, least = n, c
		}
	}
	switch {
	case best != "":
		return "did you mean " + strconv.Quote(best) + "?"
	case intro == "":
		return ""
	}
	return intro + strings.Join(names, ", ")
}

// Distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b; it stops at
// limit, which bounds the work on hostile keys.
func Distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

// Choice lists words for a message.
func Choice(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strconv.Quote(w)
	}
	if len(q) < 2 {
		return strings.Join(q, "")
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}
