package explain

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Files with secrets, files that programs outside obey, folders around everything else, and random names are never suggested; the answer
// has the reason, or the folder's pattern.
func TestWhatIsNotSuggested(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{
		FS:      []policy.FSRule{policytest.Path(".", policy.Read), policytest.Path("src", policy.Read|policy.Write)},
		Env:     []policy.EnvRule{{Name: "LANG", Read: true}},
		Protect: policy.ProtectAuto, Protected: []policy.FSRule{policytest.Match("/**/.envrc", 0)},
		Secrets: policy.ProtectAuto, SecretFiles: []policy.FSRule{policytest.Match("/**/.ssh", 0), policytest.Match("/**/*.key", 0), policytest.Match("/**/.env*", 0), policytest.Path("/etc/shadow", 0), policytest.Match("/**/*.pub", policy.Read), policytest.Match("/**/*.example", policy.Read)},
	})
	const kept = "credentials are kept here: to grant it all the same, write a rule for exactly this path with secret = true"
	const exactly, random, wide = "all the same, write a rule for exactly this path", "the name is random", "everything beneath it"
	for _, x := range []struct {
		q               Question
		suggest, advice string
	}{
		{Question{Caps: policy.Read, Target: "/home/u/.ssh/id_rsa"}, "", kept},
		{Question{Caps: policy.Read, Target: "/home/u/.ssh"}, "", kept},
		{Question{Caps: policy.Read, Target: "/etc/shadow"}, "", kept},
		{Question{Caps: policy.Read, Target: "/srv/x/.env.local"}, "", kept},
		{Question{Caps: policy.Read, Target: "src/tls.key"}, "", kept}, // beneath a grant
		{Question{Caps: policy.Update, Target: "lib/tls.key"}, "", kept},
		{Question{Caps: policy.Read, Target: "/srv/x.key.pub"}, `path = "/srv/x.key.pub"`, ""},
		{Question{Caps: policy.Update, Target: ".env.example"}, `path = ".env.example"`, ""},
		{Question{Caps: policy.Read, Target: "/srv/etc/shadow"}, `path = "/srv/etc/shadow"`, ""},
		{Question{Caps: policy.Create, Target: ".envrc"}, "", "for exactly this path with unprotect = true"},
		{Question{Caps: policy.Update, Target: "/run/docker.sock"}, "", "can run commands as root on this machine: to grant it " + exactly},
		{Question{Caps: policy.Read, Target: "/"}, "", wide},
		{Question{Caps: policy.Read, Target: "/home/u"}, "", wide},
		{Question{Caps: policy.Read, Target: "/home/u/notes"}, `path = "/home/u/notes"`, ""},
		{Question{Caps: policy.Update, Target: "."}, `path = "."`, ""},
		{Question{Caps: policy.Create, Target: "lib/x.cpython-311.pyc.140316123"}, `match = "lib/**/x.cpython-311.pyc.*"`, ""},
		{Question{Caps: policy.Create, Target: "/dev/shm/sem.a1B2c3"}, `match = "/dev/shm/**/sem.*"`, ""},
		{Question{Caps: policy.Create, Target: "out.4711987.json"}, `match = "**/out.*"`, ""},
		{Question{Caps: policy.Create, Target: "/srv/0123456789abcdef.lock"}, `match = "/srv/**/*.lock"`, ""},
		{Question{Caps: policy.Create, Target: "/srv/tmpab_cd12x"}, `match = "/srv/**/tmp*"`, ""},
		{Question{Caps: policy.Create, Target: "/srv/tmpab_cd12x/notes"}, "", random},
		{Question{Caps: policy.Read, Target: "/proc/4711987/status"}, "", random},
		{Question{Caps: policy.Create, Target: "objects/ab/0123456789abcdef0123456789abcdef012345"}, "", random},
		{Question{Caps: policy.Read, Target: "report-20261125.csv"}, `path = "report-20261125.csv"`, ""},
		{Question{Caps: policy.Create, Target: "x.sqlite3"}, `path = "x.sqlite3"`, ""},
		{Question{Caps: policy.Create, Target: "x-Windows"}, `path = "x-Windows"`, ""},
		{Question{Caps: policy.Create, Target: "lib-x86_64"}, `path = "lib-x86_64"`, ""},
		{Question{Resource: policy.Env, Target: "AWS_SECRET_ACCESS_KEY"}, "", "exactly this name"},
		{Question{Resource: policy.Env, Target: "GITHUB_TOKEN"}, "", "exactly this name"},
		{Question{Resource: policy.Env, Target: "GITHUB_TOKEN", Anyway: true}, `name = "GITHUB_TOKEN"`, ""},
		{Question{Caps: policy.Read, Target: "/home/u/.ssh/id_rsa", Anyway: true}, "secret = true", ""},
		{Question{Caps: policy.Create, Target: ".envrc", Anyway: true}, "unprotect = true", ""},
		{Question{Caps: policy.Read, Target: "/home/u", Anyway: true}, "", wide},
		{Question{Resource: policy.Env, Target: "KEYBOARD"}, `name = "KEYBOARD"`, ""},
	} {
		if x.q.Caps == policy.Read && !strings.HasPrefix(x.q.Target, "/") && x.advice != kept {
			x.q.Caps = policy.Update
		}
		a := answerTo(c, x.q)
		if a.Decision != "deny" || !strings.Contains(a.Suggest, x.suggest) || (a.Suggest == "") != (x.suggest == "") ||
			!strings.Contains(a.Advice, x.advice) || (a.Advice == "") != (x.advice == "") {
			t.Errorf("%s %s: %s, suggests %q and %q, want %q and %q", x.q.Caps, x.q.Target, a.Decision, a.Suggest, a.Advice, x.suggest, x.advice)
		}
	}
}

// A suggestion is for the part of a policy for the authority that denied. Only root can change the machine's own policy.
func TestSuggestionForAuthority(t *testing.T) {
	file := func(a policy.Authority, name string) policy.SourceLayer {
		return policy.SourceLayer{Authority: a, Position: policy.Position{File: name, Line: 3, Col: 1}, FS: []policy.FSRule{policytest.Path(".", policy.Read)}}
	}
	for _, x := range []struct {
		layer           policy.SourceLayer
		suggest, advice string
	}{
		{file(policy.Session, "p.toml"), "[[access.fs]]\npath = \"src\"\nread = true\nupdate = true\n", ""},
		{file(policy.Agent, "p.toml"), "[[authorities.agent.access.fs]]\npath = \"src\"\nread = true\nupdate = true\n", ""},
		{file(policy.Host, "/etc/toolguard/policy.d/base.toml"), "", "the policy of this machine, /etc/toolguard/policy.d/base.toml:3:1, decides this: only root can change it"},
		{file(policy.Agent, "/etc/toolguard/policy.d/base.toml"), "", "only root can change it"},
	} {
		x.layer.FS[0].Position = x.layer.Position
		a := answerTo(policytest.Compile(t, x.layer), Question{Caps: policy.Update, Target: "src"})
		if a.Suggest != x.suggest || !strings.Contains(a.Advice, x.advice) || (a.Advice == "") != (x.advice == "") {
			t.Errorf("%s in %s: suggests %q and %q", x.layer.Authority, x.layer.Position, a.Suggest, a.Advice)
		}
	}
}
