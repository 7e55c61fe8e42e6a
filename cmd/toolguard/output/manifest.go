package output

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/tool/manifest"
)

// Widenings is the answer of manifest verify.
func (s *Screen) Widenings(r *manifest.Result) {
	defer s.flush()
	if len(r.Widenings) == 0 {
		s.line("the new manifest permits nothing that the old one doesn't")
		return
	}
	var rows [][]cell
	for i := range r.Widenings {
		w := &r.Widenings[i]
		st := map[manifest.Severity]style{manifest.High: red, manifest.Medium: yellow, manifest.Info: faint}[w.Severity]
		tool, rule := "all tools", ""
		if w.Tool != "" {
			tool = w.Tool
		}
		if w.Rule != nil {
			rule = fmt.Sprintf("%s %s:%d", w.Rule.ID, w.Rule.File, w.Rule.Line)
		}
		rows = append(rows, []cell{cs(st, string(w.Severity)), c(w.Code), c(tool + caller(w.Caller)), c(w.Resource + ": " + w.Before + " → " + w.After), c(witness(w.Witness)), cs(faint, rule)})
	}
	s.table("", rows)
	s.line("%d high, %d medium, %d info", r.Counts[manifest.High], r.Counts[manifest.Medium], r.Counts[manifest.Info])
}

// caller is for whom a widening is, where it isn't for everybody.
func caller(who *manifest.Caller) string {
	if who == nil {
		return ""
	}
	var words []string
	for _, x := range [][2]string{{"agent", who.Agent}, {"profile", who.Profile}, {"provider", who.Provider}, {"group", who.Group}} {
		if x[1] != "" {
			words = append(words, x[0]+" "+x[1])
		}
	}
	if who.Depth > 0 {
		words = append(words, fmt.Sprintf("depth %d", who.Depth))
	}
	return " for " + strings.Join(words, ", ")
}

// witness is the question as the arguments of check.
func witness(w *manifest.Witness) string {
	if w == nil {
		return ""
	}
	words := []string{w.Resource, w.Action, w.Target}
	if w.Argv != nil {
		words = append([]string{w.Resource, w.Action, "--"}, w.Argv...)
	}
	return strings.Join(words, " ")
}

// Uses is the answer of manifest compare.
func (s *Screen) Uses(r *manifest.Comparison) {
	defer s.flush()
	var rows [][]cell
	for _, u := range r.Undeclared {
		rows = append(rows, []cell{cs(red, "undeclared"), c(u.Tool), c(u.Resource), c(u.Target), c(fmt.Sprintf("%d×", u.Count)), c(u.Hint)})
	}
	for _, u := range r.Unused {
		rows = append(rows, []cell{cs(yellow, "unused"), c(u.Tool), c(u.Resource), c(u.Name), c(""), c("")})
	}
	for _, name := range r.NoTable {
		rows = append(rows, []cell{cs(yellow, "no table"), c(name), c(""), c(""), c(""), c("")})
	}
	if len(rows) == 0 {
		s.line("everything that was done is declared, and everything declared was used")
		return
	}
	s.table("", rows)
}
