package grant

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// text is the machine's files with one policy.
type text struct {
	hostfs.Machine
	policy []byte
}

func (f text) Read(path string, limit int) ([]byte, error) {
	if filepath.Base(path) == "p.toml" {
		return f.policy, nil
	}
	return f.Machine.Read(path, limit)
}

const (
	files = "version = 1 # mine\n[[access.fs]]\npath = \".\"\nread = true\nwrite = true\n"
	git   = files + "execute = true\n[access.commands.git]\nargs = [[\"status\", \"**\"]]\n\n# the end\n"
)

// TestAdd checks that the added rule allows the denial and nothing else, and that the rest of the text is unchanged.
func TestAdd(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	childtest.Must(t, err)
	w, bin := home+"/w", home+"/w/bin"
	for _, dir := range []string{w + "/.git/hooks", home + "/.ssh", home + "/data", bin} {
		childtest.Must(t, os.MkdirAll(dir, 0o755))
	}
	for _, program := range []string{"git", "make"} {
		childtest.Must(t, os.WriteFile(bin+"/"+program, nil, 0o755))
	}
	fs := func(caps, target string) Denial {
		return Denial{Resource: "fs", Capability: caps, Target: target, Suggest: "x"}
	}
	secret := Denial{Resource: "fs", Capability: "read", Target: home + "/.ssh/id_rsa"}
	hook := Denial{Resource: "fs", Capability: "create", Target: w + "/.git/hooks/x"}
	net := Denial{Resource: "net", Capability: "connect", Target: "tcp://192.0.2.1:8443", Suggest: "x"}
	proxy := Denial{Resource: "net", Capability: "connect", Target: "tcp://192.0.2.1:3128", Suggest: "[[access.net]]\nhost = \"192.0.2.1\"\nscheme = \"http\"\nport = 3128\nallow = true\n"}
	push := Denial{Resource: "commands", Capability: "execute", Target: bin + "/git", Asked: "git push", Reason: "args_not_listed", Suggest: "args = [[\"status\", \"**\"], [\"push\"]]\n"}
	blank := Denial{Resource: "commands", Capability: "execute", Target: bin + "/git", Asked: "git tag a b", Reason: "args_not_listed", Suggest: "args = [[\"status\", \"**\"], [\"tag\", \"a b\"]]\n"}
	program := Denial{Resource: "fs", Capability: "execute", Target: bin + "/make", Reason: "command_not_listed"}
	for _, row := range []struct {
		name, policy string
		denial       Denial
		force        bool
		added        string // TOML, at the end; with "=" in front it's the whole text
		rejected     string
	}{
		{"a file", files, fs("read", home+"/data/x"), false, "[[access.fs]]\npath = \"" + home + "/data/x\"\nread = true\n", ""},
		{"several capabilities", files, fs("create+update", home+"/data/x"), false, "[[access.fs]]\npath = \"" + home + "/data/x\"\ncreate = true\nupdate = true\n", ""},
		{"what is granted stays", files, fs("execute", w+"/tool"), false, "[[access.fs]]\npath = \"tool\"\nread = true\nwrite = true\nexecute = true\n", ""},
		{"allowed since", files, fs("read", w+"/x"), false, "", ""},
		{"no newline at the end", strings.TrimSpace(files), fs("read", home+"/data"), false, "[[access.fs]]\npath = \"" + home + "/data\"\nread = true\n", ""},
		{"a secret", files, secret, false, "", "credentials are kept here"},
		{"a secret, with force", files, secret, true, "[[access.fs]]\npath = \"" + home + "/.ssh/id_rsa\"\nread = true\nsecret = true\n", ""},
		{"a protected file", files, hook, false, "", "programs outside the session obey this file"},
		{"a protected file, with force", files, hook, true, "[[access.fs]]\npath = \".git/hooks/x\"\nread = true\nwrite = true\nunprotect = true\n", ""},
		{"a home, with force", files, fs("read", "/home"), true, "", "would open everything beneath it"},
		{"what the run knew", files, Denial{Resource: "fs", Capability: "create", Target: home + "/data/x", Extra: map[string]string{"anyway": "ordinary permissions deny it too"}}, true, "", "ordinary permissions"},
		{"an address", files, net, false, "[[access.net]]\nhost = \"192.0.2.1\"\nport = 8443\nallow = true\n", ""},
		{"a proxy", files, proxy, false, "[[access.net]]\nhost = \"192.0.2.1\"\nscheme = \"http\"\nport = 3128\nallow = true\n", ""},
		{"a name's private address", files, Denial{Resource: "net", Capability: "connect", Target: "https://db.test:443", Reason: "private_address", Extra: map[string]string{"to": "10.1.1.1:443"}}, false, "[[access.net]]\nhost = \"10.1.1.1\"\nscheme = \"https\"\nallow = true\n", ""},
		{"another name than that of the connection", files, Denial{Resource: "net", Capability: "connect", Target: "https://a.test:443", Reason: "host_mismatch", Extra: map[string]string{"why": "it's b.test"}}, false, "", "no policy can allow it: it's b.test"},
		{"a variable", files + "[access]\ndefault = { env = \"deny\" }\n", Denial{Resource: "env", Target: "X", Suggest: "x"}, false, "[[access.env]]\nname = \"X\"\nread = true\n", ""},
		{"a secret variable, with force", "version = 1\n[access]\ndefault = { env = \"deny\" }\n", Denial{Resource: "env", Target: "A_TOKEN"}, true, "[[access.env]]\nname = \"A_TOKEN\"\nread = true\n", ""},
		{"the first rule", "version = 1\n", fs("read", home+"/data"), false, "", "would remove what the built-in default policy grants"},
		{"arguments", git, push, false, "=" + strings.Replace(git, "\"]]", "\"], [\"push\"]]", 1), ""},
		{"arguments that can't be merged", strings.Replace(git, "[[\"status\", \"**\"]]", "{ strategy = \"replace\", value = [[\"status\", \"**\"]] }", 1), push, false, "[access.commands.\"" + bin + "/git\"]\nargs = [[\"status\", \"**\"], [\"push\"]]\n", ""},
		{"arguments that a self-test denies", strings.Replace(git, "\n\n# the", "\nnot_match = [[\"git\", \"push\"]]\n\n# the", 1), push, false, "", "the policy with this grant doesn't load: "},
		{"arguments with blanks", git, blank, false, "", "add it by hand"},
		{"arguments that aren't known", git, Denial{Resource: "commands", Target: bin + "/git", Reason: "args_not_listed"}, false, "", "not all of its arguments are known"},
		{"a program", git, program, false, "[access.commands.\"" + bin + "/make\"]\n", ""},
		{"a table that can't be appended to", "version = 1\naccess = { fs = [{ path = \".\", read = true }] }\n", fs("read", home+"/data"), false, "", "the policy with this grant doesn't load: "},
		{"a system call", files, Denial{Resource: "syscall", Capability: "unshare", Target: "unshare", Extra: map[string]string{"why": "always on"}}, true, "", "no policy can allow it: always on"},
		{"a move", files, Denial{Resource: "fs", Capability: "rename", Target: w + "/x"}, true, "", "no policy can allow it"},
		{"a system call about the network", files, Denial{Resource: "net", Capability: "bind", Target: "bind", Suggest: "[[access.net]]\n"}, false, "", "add it by hand"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := Policy{Text: []byte(row.policy), System: hostfs.Machine{}, Load: func(policyText []byte) (*policy.Compiled, error) {
				src, _, err := policyfile.Load(policyfile.Request{Policies: []string{home + "/p.toml"}, Workspace: w, Dir: w, Home: home, Path: bin}, text{policy: policyText})
				if err != nil {
					return nil, err
				}
				return policy.Compile(src, hostfs.Machine{})
			}}
			got, err := p.Add(&row.denial, row.force)
			var rejection *Rejection
			switch {
			case row.rejected != "":
				if !errors.As(err, &rejection) || !strings.Contains(rejection.Reason, row.rejected) {
					t.Errorf("%v", err)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			want := row.policy
			if whole, ok := strings.CutPrefix(row.added, "="); ok {
				want = whole
			} else if row.added != "" {
				want = strings.TrimRight(row.policy, "\n") + "\n\n" + row.added
			}
			if string(got) != want {
				t.Errorf("it's\n%s\nnot\n%s", got, want)
			}
		})
	}
}
