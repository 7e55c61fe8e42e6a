package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/tool/gate"
)

// take takes the step of a call by a word: what its driver reports.
func take(l *Life, word string) {
	step, arg, _ := strings.Cut(word, " ")
	denial := map[bool]*gate.Answer{true: {Decision: gate.Deny, Reason: "constraint"}}[arg == "deny"]
	switch step {
	case "judge":
		l.Judged(&gate.Answer{Decision: arg, Reason: "gate", Risk: "high"})
	case "hooks":
		r := HookResult{}
		switch arg {
		case "block":
			r.Blocked = "blocked"
		case "ask":
			r.Ask = "a hook asks"
		case "rewrite":
			r.Arguments = json.RawMessage(`{"x":2}`)
		case "rewrite+ask":
			r.Arguments, r.Ask = json.RawMessage(`{"x":2}`), "a hook asks"
		}
		l.Hooked(r)
	case "constraints":
		l.Permitted(denial)
	case "approval":
		switch arg {
		case "yes":
			l.Approved(true)
		case "no":
			l.Rejected("a person said no")
		default:
			l.Unanswered("nobody answered")
		}
	case "start":
		l.Counted(denial)
	case "fail":
		l.Failed(errors.New("broken"))
	case "lost":
		l.Lost()
	case "end":
		l.End()
	}
}

var stepNames = []string{"judge", "hooks", "constraints", "approval", "start", "running", "ended", "denied"}

func TestLife(t *testing.T) {
	for _, row := range []struct{ words, want string }{
		{"judge deny", "denied gate"},
		{"judge allow", "hooks gate"},
		{"judge allow,hooks,constraints,start", "running gate"},
		{"judge allow,hooks block", "denied hook_blocked"},
		{"judge allow,hooks rewrite", "judge gate"},
		{"judge allow,hooks rewrite,judge deny", "denied gate"},
		{"judge allow,hooks rewrite,judge allow,constraints,start", "running gate"},
		{"judge allow,hooks rewrite,judge allow,constraints,start,lost", "denied rewrite_lost"},
		{"judge ask,hooks,constraints", "approval gate"},
		{"judge ask,hooks,constraints,approval yes,start", "running rule_allows"},
		{"judge ask,hooks,constraints,approval no", "denied approval_denied"},
		{"judge ask,hooks,constraints,approval none", "denied approval_timeout"},
		{"judge ask,hooks,constraints deny", "denied constraint"},
		{"judge ask,hooks,constraints,approval yes,start deny", "denied constraint"},
		{"judge allow,hooks ask,constraints", "approval approval_required"},
		{"judge allow,hooks rewrite+ask,judge allow,constraints", "approval approval_required"},
		{"judge allow,hooks,constraints,start,end", "ended gate"},
		{"judge allow,hooks,fail", "denied engine_error"},
		{"judge allow,start", "denied engine_error"},
		{"judge allow,hooks,approval yes", "denied engine_error"},
		{"judge allow,judge allow", "denied engine_error"},
		{"judge deny,start", "denied gate"},
		{"judge allow,hooks,end,start", "ended gate"},
	} {
		l := NewLife(&gate.Call{ID: "1", Tool: "x"})
		for word := range strings.SplitSeq(row.words, ",") {
			take(l, word)
		}
		if got := stepNames[l.Step] + " " + l.Answer.Reason; got != row.want {
			t.Errorf("%s: %s, want %s", row.words, got, row.want)
		}
		if l.Step == Denied && l.Answer.Decision != gate.Deny {
			t.Errorf("%s: %+v", row.words, l.Answer)
		}
	}
}

// Whatever is reported in whatever order, a call runs only if each step has allowed it, with the arguments that were judged last.
func TestLifeSteps(t *testing.T) {
	words := []string{
		"judge allow", "judge ask", "judge deny", "hooks", "hooks block", "hooks ask", "hooks rewrite", "hooks rewrite+ask", "constraints", "constraints deny",
		"approval yes", "approval no", "start", "start deny", "fail", "lost", "end",
	}
	rapid.Check(t, func(t *rapid.T) {
		l := NewLife(&gate.Call{ID: "1", Tool: "x", Arguments: json.RawMessage(`{"x":1}`)})
		passed := map[string]bool{}
		judged := ""
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			fitting := words
			if rapid.IntRange(0, 9).Draw(t, "fits") > 0 { // mostly what belongs to the step
				fitting = nil
				for _, w := range words {
					if strings.HasPrefix(w, stepNames[l.Step]) {
						fitting = append(fitting, w)
					}
				}
			}
			if len(fitting) == 0 {
				break
			}
			word := rapid.SampledFrom(fitting).Draw(t, "word")
			before := l.Step
			take(l, word)
			if l.Step != before && l.Step != Denied {
				passed[stepNames[before]] = true
			}
			switch {
			case word == "judge allow":
				judged = string(l.Call.Arguments)
			case word == "judge ask":
				judged = string(l.Call.Arguments) + "?"
			case strings.HasSuffix(word, "ask") && before == Hooks:
				passed["asked"] = true
			}
			if l.Step != Running || before == Running {
				continue
			}
			asked := strings.HasSuffix(judged, "?") || passed["asked"]
			for _, step := range []string{"judge", "hooks", "constraints", "start"} {
				if !passed[step] {
					t.Fatalf("it runs without %s", step)
				}
			}
			if asked != passed["approval"] || strings.TrimSuffix(judged, "?") != string(l.Call.Arguments) {
				t.Fatal(fmt.Sprintf("it runs: asked %t, approved %t, judged %s, arguments %s", asked, passed["approval"], judged, l.Call.Arguments))
			}
		}
	})
}
