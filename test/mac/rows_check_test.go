package mac

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/written"
)

var must = childtest.Must

// policyText is the policy of an attack with rules.
func (a *attack) policyText(rules string) string {
	access := a.access
	if access == "" {
		access = off
	}
	return "version = 1\n\n[access]\n" + access + base + rules
}

// with replaces the names in a text by their values.
func with(values map[string]string, text string) string {
	for name, value := range values {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// TestPolicies compiles the policies of the attacks for a Mac: the profile enforces each, and they deny and allow what the attack is about.
func TestPolicies(t *testing.T) {
	values := map[string]string{"ws": "/Users/ann/work", "home": "/Users/ann", "out": "/Users/Shared/out", "port": "8123", "pid": "1"}
	compile := func(t *testing.T, text string) *policy.Compiled { return compileFor(t, values, text) }
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			policies := map[bool]*policy.Compiled{false: compile(t, a.policyText(a.rules))}
			if a.control != "-" {
				policies[true] = compile(t, a.policyText(a.control))
			}
			for allowed, c := range policies {
				p, err := darwin.Render(c, darwin.Options{Home: values["home"], EgressPort: 1})
				must(t, err)
				for _, row := range p.Report {
					if row.Status != policy.Enforced && !row.Advisory {
						t.Errorf("the policy that allows it (%v): %s is %s: %s", allowed, row.ID, row.Status, row.Why)
					}
				}
				if a.denied != "" {
					if got := decide(t, c, with(values, a.denied)); got != allowed {
						t.Errorf("%s is allowed: %v, want %v", a.denied, got, allowed)
					}
				}
			}
			if a.denied == "" && a.control != "-" {
				t.Error("nothing asks the policies")
			}
		})
	}
}

// manyRules are so many rules that the profile is too long for an argument.
func manyRules() string {
	var rules strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&rules, "[[access.fs]]\npath = \"folder-%d\"\nread = true\n", i)
	}
	return rules.String()
}

func TestManyRules(t *testing.T) {
	c := compileFor(t, map[string]string{"ws": "/Users/ann/work", "home": "/Users/ann"}, (&attack{}).policyText(manyRules()))
	p, err := darwin.Render(c, darwin.Options{Home: "/Users/ann"})
	must(t, err)
	args, err := sandboxexec.Args(sandboxexec.Program, p, "/profile", "/bin/sh")
	must(t, err)
	if size := len(strings.Join(args, " ")); len(p.Text) <= sandboxexec.MaxInline || size > 1<<19 {
		t.Errorf("the profile has %d bytes, and the other arguments %d", len(p.Text), size)
	}
}

// compileFor compiles a policy for a Mac.
func compileFor(t *testing.T, values map[string]string, text string) *policy.Compiled {
	t.Helper()
	file := values["ws"] + "/policy.toml"
	c, err := written.Compile(written.Request{Policies: []string{file}, Workspace: values["ws"], Home: values["home"], Dir: values["ws"]},
		func(path string, _ int) ([]byte, error) {
			if path != file {
				return nil, os.ErrNotExist
			}
			return []byte(with(values, text)), nil
		})
	must(t, err)
	return c
}

// decide answers a question.
func decide(t *testing.T, c *policy.Compiled, question string) bool {
	t.Helper()
	f := strings.SplitN(question, " ", 3)
	switch f[0] {
	case "fs":
		caps := map[string]policy.Caps{"read": policy.Read, "create": policy.Create, "update": policy.Update, "delete": policy.Delete, "execute": policy.Execute}[f[1]]
		path := f[2]
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.Workspace, path)
		}
		return caps != 0 && c.CheckFS(path, caps).Allow
	case "net":
		at, err := netname.ParseTarget(f[2])
		must(t, err)
		return c.CheckNet(&at).Allow
	case "env":
		return c.CheckEnv(f[2]).Allow
	}
	t.Fatalf("no question: %s", question)
	return false
}

// scene is where the attacks run.
type scene struct {
	t      *testing.T
	values map[string]string
}

// newScene makes the folders, the servers and the process outside.
func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	s := &scene{t, map[string]string{"home": dir + "/home", "ws": dir + "/home/work", "out": dir + "/out"}}
	for _, name := range []string{"ws", "out"} {
		must(t, os.MkdirAll(s.values[name], 0o755))
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "served") })}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	s.values["port"] = fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	outside := exec.Command("sleep", "600")
	must(t, outside.Start())
	t.Cleanup(func() { outside.Process.Kill(); outside.Wait() })
	s.values["pid"] = fmt.Sprint(outside.Process.Pid)
	return s
}

// shell returns a script as a command in the workspace.
func (s *scene) shell(script string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", with(s.values, script))
	cmd.Dir = s.values["ws"]
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/opt/homebrew/bin", "HOME=" + s.values["home"], "SECRET_TOKEN=token", "USER=ann", "LANG=C"}
	return cmd
}

// write writes a policy into the workspace.
func (s *scene) write(a *attack, rules string) (file string) {
	s.t.Helper()
	file = s.values["ws"] + "/policy.toml"
	must(s.t, os.WriteFile(file, []byte(with(s.values, a.policyText(rules))), 0o644))
	return file
}

// prepare runs what comes before an attack.
func (s *scene) prepare(a *attack) {
	s.t.Helper()
	if a.before == "" {
		return
	}
	if out, err := s.shell(a.before).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", a.before, err, out)
	}
}

// TestWithoutToolguard: an attack that doesn't succeed without toolguard would prove nothing.
func TestWithoutToolguard(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			if a.mac && !isMac {
				t.Skip("needs macOS")
			}
			if _, err := exec.LookPath("curl"); err != nil && strings.Contains(a.script, "curl") {
				t.Skip("needs curl")
			}
			s := newScene(t)
			s.write(&a, a.rules)
			s.prepare(&a)
			s.serveSocket()
			if out, err := s.shell(a.script).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// serveSocket serves the unix socket outside of the workspace.
func (s *scene) serveSocket() {
	s.t.Helper()
	l, err := net.Listen("unix", s.values["out"]+"/socket")
	if err != nil {
		return // the path is too long: the attack fails without toolguard, too
	}
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "answer")
			c.Close()
		}
	}()
}
