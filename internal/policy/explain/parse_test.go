package explain_test

import (
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

func TestParseQuestion(t *testing.T) {
	for _, row := range []struct {
		resource, action, target string
		want                     string // the target; "" for an error
	}{
		{"fs", "read", "/x", "/x"},
		{"fs", "readlink", "/x", "/x"},
		{"fs", "read", "~", "/home/me"},
		{"fs", "update", "~/x", "/home/me/x"},
		{"fs", "read", "~other/x", ""},
		{"fs", "read", "$HOME/x", ""},
		{"fs", "read", "./$HOME", "./$HOME"},
		{"fs", "connect", "/x", ""},
		{"net", "connect", "https://example.com", "https://example.com"},
		{"net", "POST", "https://example.com/x", "https://example.com/x"},
		{"net", "post", "https://example.com/x", ""},
		{"net", "connect", "https://", ""},
		{"env", "read", "PATH", "PATH"},
		{"env", "read", "PATH=/x", ""},
		{"env", "write", "PATH", ""},
		{"command", "run", "", ""},
		{"commands", "run", "git", "git"},
		{"command", "execute", "git", ""},
		{"file", "read", "/x", ""},
	} {
		q, err := explain.ParseQuestion(row.resource, row.action)
		q.Target = row.target
		if err == nil {
			err = q.NormalizeTarget("/home/me")
		}
		if err != nil {
			q.Target = ""
		}
		if q.Target != row.want {
			t.Errorf("%s %s %s: %q, %v", row.resource, row.action, row.target, q.Target, err)
		}
	}
	q := explain.Question{Resource: policy.FS, Target: "~/x"}
	if err := q.NormalizeTarget(""); err == nil {
		t.Errorf("without a home, ~/x is %q", q.Target)
	}
}
