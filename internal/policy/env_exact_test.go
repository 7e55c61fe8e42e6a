package policy_test

import (
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Only a rule with exactly its name grants a variable that makes programs execute other code or looks like a credential.
func TestEnvNeedsExactRule(t *testing.T) {
	prefix := policytest.Compile(t, policy.SourceLayer{Env: []policy.EnvRule{{Name: "LD_*", Read: true}, {Name: "PYTHON*", Read: true}, {Name: "AWS_*", Read: true}, {Name: "MY_TOKEN", Read: true}, {Name: "GIT_SSH", Read: true}}})
	all := policytest.Compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Env: policy.Allow}, Env: []policy.EnvRule{{Name: "BASH_ENV", Read: true}}})
	host := policytest.Compile(t, policy.SourceLayer{Authority: policy.Host, Env: []policy.EnvRule{{Name: "AWS_*", Read: true}}}, policy.SourceLayer{Authority: policy.Session, Env: []policy.EnvRule{{Name: "AWS_SESSION_TOKEN", Read: true}}})
	none := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{{Path: ".", Caps: policy.Read}}})
	for _, x := range []struct {
		what        string
		c           *policy.Compiled
		name, value string
		allow       bool
	}{
		{"a prefix", prefix, "PYTHONUNBUFFERED", "1", true},
		{"a prefix", prefix, "AWS_REGION", "eu", true},
		{"a prefix, of a loader's", prefix, "LD_PRELOAD", "/x.so", false},
		{"a prefix, of an interpreter's", prefix, "PYTHONSTARTUP", "x.py", false},
		{"a prefix, of a credential", prefix, "AWS_SECRET_ACCESS_KEY", "x", false},
		{"its name, of a credential", prefix, "MY_TOKEN", "x", true},
		{"its name, of a command", prefix, "GIT_SSH", "x", true},
		{"folders of the workspace", prefix, "PYTHONPATH", "/w/lib:/w", true},
		{"folders elsewhere", prefix, "PYTHONPATH", "/w/lib:/tmp", false},
		{"the folder at hand", prefix, "PYTHONPATH", "/w/lib:", false},
		{"out of the workspace", prefix, "PYTHONPATH", "/w/../x", false},
		{"everything", all, "ANYTHING", "x", true},
		{"everything, of a function of the shell's", all, "BASH_FUNC_x%%", "() { :; }", false},
		{"everything, of a credential", all, "GITHUB_TOKEN", "x", false},
		{"everything, and its name", all, "BASH_ENV", "x", true},
		{"a prefix of the host's, and its name", host, "AWS_SESSION_TOKEN", "x", true},
		{"no rule of the session's about it", host, "AWS_SECRET_ACCESS_KEY", "x", false},
		{"no rule about variables", none, "GITHUB_TOKEN", "x", true},
	} {
		if v := x.c.CheckVariable(x.name, x.value); v.Allow != x.allow {
			t.Errorf("%s: %s=%s: %+v", x.what, x.name, x.value, v)
		}
	}
	if _, a := explain.Ask(prefix, nil, explain.Question{Resource: policy.Env, Target: "LD_PRELOAD"}); a.Note == "" || a.Suggest == "" {
		t.Errorf("%+v", a)
	}
	e := explain.Explain(prefix, nil, explain.Question{Resource: policy.Env, Target: "LD_PRELOAD"})
	if c := e.Layers[0].Candidates; len(c) != 1 || c[0].Won || e.Layers[0].Allow {
		t.Errorf("%+v", e)
	}
}
