package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// required are the tests that may not be skipped, as `FEATURE... PATTERN` lines. Where a place has all the features, at least one test
// that fits the pattern must have run, and none may have been skipped. In a pattern * stands for anything. A pattern after ! names
// exceptions of the patterns above it.
type required []requirement

type requirement struct {
	features   []string
	text       string
	pattern    *regexp.Regexp
	exceptions []*regexp.Regexp
}

func readRequired(file string) (list required, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		text, except := strings.CutPrefix(last, "!")
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
		switch {
		case except && len(list) > 0:
			list[len(list)-1].exceptions = append(list[len(list)-1].exceptions, pattern)
		case len(words) < 2:
			return nil, fmt.Errorf("%s: %q is not FEATURE... PATTERN", file, line)
		default:
			list = append(list, requirement{features: words[:len(words)-1], text: text, pattern: pattern})
		}
	}
	return list, lines.Err()
}

// missing are the requirements of a place that it does not meet.
func (list required) missing(p *place, features []string) (missing []string) {
	for _, r := range list {
		if slices.ContainsFunc(r.features, func(f string) bool { return !slices.Contains(features, f) }) {
			continue
		}
		if !r.ran(p) {
			missing = append(missing, fmt.Sprintf("%s: no test ran that fits %s", p.name, r.text))
		}
		for test, why := range p.reasons {
			if r.matches(test) {
				missing = append(missing, fmt.Sprintf("%s: %s was skipped (%s), and %s may not be", p.name, test, why, r.text))
			}
		}
	}
	slices.Sort(missing)
	return missing
}

func (r *requirement) ran(p *place) bool {
	for test := range p.passed {
		if r.matches(test) {
			return true
		}
	}
	for test := range p.failed {
		if r.matches(test) {
			return true
		}
	}
	return false
}

func (r *requirement) matches(test string) bool {
	return r.pattern.MatchString(test) &&
		!slices.ContainsFunc(r.exceptions, func(e *regexp.Regexp) bool { return e.MatchString(test) })
}
