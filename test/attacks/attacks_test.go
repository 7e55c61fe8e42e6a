//go:build linux

package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/seccomp"
)

// attack is one row: a program, the expected result of each attempt, and the run's environment.
type attack struct {
	prog    string
	args    string
	tries   []try
	notRoot bool // root has nothing to gain by it

	from, below int // the Landlock ABIs that the row is about; 0: all

	bpf  map[string]got // the results under the bpf backend, where they differ
	more string         // rules added to the scene's; only bpf can enforce them on a command

	anywhere bool // or any backend can

	around func(*testing.T, *scene, *exec.Cmd)         // prepares the run
	after  func(t *testing.T, s *scene, confined bool) // checks the state after the run
	needs  func() string                               // the missing feature of this machine; "" for none
	gap    string                                      // words of landlock's stated gap that lets it through
	bpfGap string                                      // words of bpf's
}

// got is an attempt's result, with its event.
type got struct {
	confined string
	event    wanted
}

// try is one attempt. Outcomes are "ok", or the errnos or the signal that it may end with; " / nobody " divides root's
// outcome from an ordinary user's. A bare outcome other than "ok" means that there is no control here.
type try struct {
	name, bare, confined string
	event                wanted
}

// ok is the outcome of an attempt that works.
const ok = "ok"

// rows returns all attacks.
func rows() []attack {
	return slices.Concat(fsRows, execRows, processRows, privilegeRows, netRows, kernelRows, bpfRows)
}

// TestControls runs the attacks bare: each must succeed, or its denial under toolguard proves nothing.
func TestControls(t *testing.T) {
	each(t, bare, func(t *testing.T, a attack, s *scene) {
		got := s.run(t, a, append([]string{s.vars["BIN"] + "/parent"}, s.command(a)...))
		for _, y := range a.tries {
			s.compare(t, y.name, got, y.bare)
		}
		if a.after != nil {
			a.after(t, s, false)
		}
	})
}

// TestConfined runs the attacks under a policy that Landlock and seccomp enforce.
func TestConfined(t *testing.T) {
	toolguard(t) // fails once, not for every row
	each(t, landlock, denied)
}

// TestConfinedByBPF runs them under the BPF programs: toolguard's own as root, toolguardd's as an ordinary user.
func TestConfinedByBPF(t *testing.T) {
	serve(t)
	each(t, bpf, denied)
}

// TestConfinedWrapped runs them within bubblewrap and firejail, as each user that can start these here. A policy that they can't enforce must be
// refused, by the rule's name.
func TestConfinedWrapped(t *testing.T) {
	toolguard(t)
	for _, name := range []string{"bwrap", "firejail"} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skip("needs ", name)
			}
			who := users()
			if name == "firejail" { // what it hides, root can open
				who = []user{account(t)}
			}
			column := &column{index: slices.Index(strings.Split(heading, " | "), name) - 1, who: who}
			eachOf(t, who, wrapped(name), func(t *testing.T, a attack, s *scene) {
				if a.prog == "threads_trace" {
					freely(t, s, nil) // its own policy
				}
				if ids, why := s.refused(t); ids != nil {
					t.Logf("refused: %s", why)
					column.record(a, "refused ("+strings.Join(slices.Compact(ids), ", ")+")")
					return
				}
				if got := confined(t, a, s); !t.Failed() {
					column.record(a, a.state(got))
				}
			})
			column.compare(t)
		})
	}
}

// refused returns the rules that the backend can't enforce, and why, or none if the command would start.
func (s *scene) refused(t *testing.T) (ids []string, why string) {
	t.Helper()
	cmd := exec.Command(toolguard(t), "exec", "--policy", s.vars["POLICY"], "--backend", s.backend.name, "--dry-run", "--json")
	cmd.Env, cmd.Dir, cmd.SysProcAttr = s.env, s.vars["WS"], &syscall.SysProcAttr{Credential: s.credential()}
	out, err := cmd.Output()
	var report struct {
		Starts bool
		Rows   []struct {
			ID      string
			Refused bool
			Why     string
		}
	}
	if e := json.Unmarshal(out, &report); e != nil || report.Starts != (err == nil) {
		t.Fatalf("%v, %v\n%s", err, e, out)
	}
	for _, row := range report.Rows {
		if row.Refused {
			id, _, _ := strings.Cut(row.ID, "./") // of a command, which has a path that differs
			ids, why = append(ids, id), why+row.ID+": "+row.Why+"\n"
		}
	}
	if (ids == nil) != report.Starts {
		t.Fatalf("it starts: %t, and these rules aren't enforced: %q", report.Starts, why)
	}
	return ids, why
}

func denied(t *testing.T, a attack, s *scene) { confined(t, a, s) }

// confined runs the attack under the backend and returns its results, after comparing them with the row.
func confined(t *testing.T, a attack, s *scene) map[string]string {
	t.Helper()
	before := s.snapshot(t, a)
	got := s.run(t, a, s.confined(t, a))
	for _, y := range a.tries {
		s.compare(t, y.name, got, y.confined)
	}
	if after := s.snapshot(t, a); after != before {
		t.Errorf("files changed from\n%s\nto\n%s", before, after)
	}
	if a.after != nil {
		a.after(t, s, true)
	}
	s.witness(t, a)
	return got
}

// TestRingsStayDenied checks that the Landlock backend denies io_uring although a policy allows it, and reports that before anything starts.
func TestRingsStayDenied(t *testing.T) {
	a := attack{prog: "io_uring", tries: []try{{"setup", ok, "ENOSYS", callEvent("io_uring_setup").by("seccomp.io_uring")}}}
	for _, u := range users() {
		t.Run(u.Name, func(t *testing.T) {
			s := newScene(t, u, landlock, ringsGranted)
			s.compare(t, "setup", s.run(t, a, s.command(a)), ok)
			confined(t, a, s)
			if report := s.dryRun(t); !strings.Contains(report, seccomp.RingsDenied) {
				t.Errorf("--dry-run doesn't say %q:\n%s", seccomp.RingsDenied, report)
			}
		})
	}
}

// TestStatedGaps checks that the backends name, before anything starts, what they don't enforce.
func TestStatedGaps(t *testing.T) {
	for _, b := range []*backend{landlock, bpf} {
		t.Run(b.name, func(t *testing.T) {
			if b == bpf {
				serve(t)
			}
			s := newScene(t, users()[0], b, "")
			report := s.dryRun(t)
			for _, a := range b.rows() {
				if a.gap != "" && !strings.Contains(report, a.gap) {
					t.Errorf("%s gets through, and --dry-run doesn't have %q", a.prog, a.gap)
				}
			}
			// Rules that it doesn't enforce are reported again when the command starts.
			cmd := exec.Command(toolguard(t), append([]string{"exec", "--policy", s.vars["POLICY"]}, b.flags(users()[0])...)...)
			cmd.Args, cmd.Env = append(cmd.Args, "--", "/bin/true"), s.env
			out, err := cmd.CombinedOutput()
			must(t, err)
			missing := strings.Contains(report, "not enforceable (allowed)")
			if missing == (b == bpf) || missing != strings.HasPrefix(string(out), "toolguard: landlock doesn't enforce protect") {
				t.Errorf("--dry-run reports a rule that isn't enforced: %t; the start prints %q", missing, out)
			}
		})
	}
}

// dryRun is the report about the scene's policy before anything starts.
func (s *scene) dryRun(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(toolguard(t), "exec", "--policy", s.vars["POLICY"], "--backend", s.backend.name, "--dry-run")
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestRowForEveryProgram checks that every program has a row.
func TestRowForEveryProgram(t *testing.T) {
	sources, err := filepath.Glob("src/*.*")
	must(t, err)
	helpers := []string{"attack", "noop", "parent", "setuid_target", "victim"}
	for _, src := range sources {
		name := strings.TrimSuffix(filepath.Base(src), filepath.Ext(src))
		if !slices.Contains(helpers, name) && !slices.ContainsFunc(rows(), func(a attack) bool { return a.prog == name }) {
			t.Errorf("no row runs %s", src)
		}
		text, err := os.ReadFile(src)
		must(t, err)
		for _, part := range []string{"Tries: ", "Must get: ", "Event: "} {
			if name != "attack" && !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s doesn't have %q", src, part)
			}
		}
	}
}

// each runs a function for every attack and user.
func each(t *testing.T, b *backend, f func(*testing.T, attack, *scene)) { eachOf(t, users(), b, f) }

func eachOf(t *testing.T, users []user, b *backend, f func(*testing.T, attack, *scene)) {
	for _, u := range users {
		t.Run(u.Name, func(t *testing.T) {
			for _, a := range b.rows() {
				if a.notRoot && u.ID == 0 {
					continue
				}
				t.Run(a.prog, func(t *testing.T) {
					if a.needs != nil && a.needs() != "" {
						t.Skip(a.needs())
					}
					f(t, a, newScene(t, u, b, a.more))
				})
			}
		})
	}
}

// command is the attack's command line, unconfined.
func (s *scene) command(a attack) []string {
	prog := a.prog
	if _, err := os.Stat(filepath.Join("src", prog+".c")); err != nil {
		found, _ := filepath.Glob(filepath.Join("src", prog+".*"))
		prog = filepath.Base(found[0])
	}
	argv := []string{s.vars["BIN"] + "/" + prog}
	if strings.HasSuffix(prog, ".py") {
		argv = []string{"/usr/bin/python3", argv[0]}
	}
	return append(argv, strings.Fields(a.args)...)
}

// confined is the attack's command line under toolguard.
func (s *scene) confined(t *testing.T, a attack) []string {
	t.Helper()
	return slices.Concat([]string{toolguard(t), "exec", "--quiet", "--policy", "$POLICY", "--events", "$EVENTS", "--report", "never"},
		s.backend.flags(s.user), []string{"--"}, s.command(a))
}

// run runs one command as the scene's user and returns the result of each attempt.
func (s *scene) run(t *testing.T, a attack, argv []string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // an emulated machine loads the bpf backend slowly
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0])
	cmd.Env, cmd.Dir = s.env, s.vars["WS"]
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential()}
	if a.around != nil {
		a.around(t, s, cmd)
	}
	for _, arg := range argv[1:] {
		cmd.Args = append(cmd.Args, s.expand(arg))
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s%s", cmd.Args, err, stdout.String(), stderr.String())
	}
	return results(t, stdout.String(), stderr.String())
}

func (s *scene) credential() *syscall.Credential {
	if s.user.ID == os.Getuid() {
		return nil
	}
	return &syscall.Credential{Uid: uint32(s.user.ID), Gid: uint32(s.user.ID)}
}

// results reads the lines that src/attack.h describes.
func results(t *testing.T, stdout, stderr string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for line := range strings.Lines(stdout) {
		words := strings.Fields(line)
		switch {
		case len(words) == 3 && words[0] == "RESULT" && words[1] == ok:
			got[words[2]] = ok
		case len(words) == 4 && words[0] == "RESULT" && (words[1] == "denied" || words[1] == "killed"):
			got[words[3]] = words[2]
		default:
			t.Errorf("unexpected line %q", line)
		}
	}
	if t.Failed() {
		t.Logf("standard error: %s", stderr)
	}
	return got
}

// compare compares an attempt's result with the expected one.
func (s *scene) compare(t *testing.T, name string, got map[string]string, want string) {
	t.Helper()
	root, ordinary, both := strings.Cut(want, " / nobody ")
	if want = root; both && s.user.ID != 0 {
		want = ordinary
	}
	result, there := got[name]
	if want == anything || want == anyDenial && there && result != ok {
		return
	}
	if !there {
		t.Errorf("%s: no result, only for %q", name, slices.Sorted(maps.Keys(got)))
	} else if !slices.Contains(strings.Fields(want), result) {
		t.Errorf("%s: got %s, want %s", name, result, want)
	}
}
