//go:build linux

package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// answer is a line that gate prints.
type answer struct {
	ID         *string `json:"id"`
	Decision   string  `json:"decision"`
	Reason     string  `json:"reason"`
	Message    string  `json:"message"`
	Risk       string  `json:"risk"`
	Suggest    string  `json:"suggest"`
	Rule       *rule   `json:"rule"`
	Capability string  `json:"capability"`
	Declared   *bool   `json:"declared"`
	Grants     []string
	Swallow    *bool  `json:"should_swallow"`
	ToModel    string `json:"error_to_model"`
	Metadata   struct {
		Decision, Path string
		Root           string `json:"project_root"`
	}
}

func (a *answer) String() string {
	return fmt.Sprintf("%s %s %s: %s", a.Decision, a.Reason, a.Capability, a.Message)
}

type rule struct {
	ID, Authority, File string
	Line                int
}

// parseAnswers reads answers strictly: an answer has no other keys.
func parseAnswers(t testing.TB, text []byte) (all []*answer) {
	t.Helper()
	for line := range bytes.Lines(text) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		a := new(answer)
		if err := d.Decode(a); err != nil {
			t.Fatalf("%v in %.400s", err, line)
		}
		all = append(all, a)
	}
	return all
}

// malformed lists what no answer may be.
func (a *answer) malformed(s *scene) (list []string) {
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	swallow := a.Decision != "allow"
	bad(a.Swallow == nil || *a.Swallow != swallow, "should_swallow isn't %t", swallow)
	bad(a.Declared == nil, "there's no declared")
	bad((a.ToModel != "") != swallow, "error_to_model is %q", a.ToModel)
	bad(a.Reason == "" || a.Message == "", "no reason or message")
	bad(strings.ContainsFunc(a.Message, func(r rune) bool { return r < ' ' || r == 0x7f }), "the message has control characters: %q", a.Message)
	bad(!slices.Contains([]string{"low", "medium", "high", "critical"}, a.Risk), "the risk is %q", a.Risk)
	bad(!slices.Contains([]string{"read", "list", "create", "update", "delete", "execute", "connect", "unknown", "none"}, a.Capability), "the capability is %q", a.Capability)
	want := map[string]string{"allow": "allowed", "deny": "blocked", "ask": "asked"}[a.Decision]
	bad(a.Metadata.Decision != want, "metadata.decision is %q", a.Metadata.Decision)
	bad(a.Metadata.Root != s.dir("WS"), "metadata.project_root is %q", a.Metadata.Root)
	if !swallow {
		return list
	}
	bad(strings.Count(a.ToModel, "\n") >= 20, "error_to_model has more than 20 lines")
	first, _, _ := strings.Cut(a.ToModel, "\n")
	bad(!slices.ContainsFunc([]string{"File sandboxing violation: Path '", "path escapes the workspace: ", "access denied: ", "tool "}, func(p string) bool {
		return strings.HasPrefix(first, p)
	}), "error_to_model begins with %q", first)
	if a.Reason == "outside_workspace" && a.Metadata.Path != "" {
		path := strings.Map(func(r rune) rune {
			if r < ' ' {
				return ' '
			}
			return r
		}, a.Metadata.Path)
		form := fmt.Sprintf("File sandboxing violation: Path '%s' is outside project directory '%s'. Operation blocked for security.", path, s.dir("WS"))
		bad(first != form, "error_to_model begins with %q, and not %q", first, form)
	}
	return list
}
