package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// starts measures what it costs to start a command, once more as an ordinary user where root asks.
func starts(out io.Writer, toolguard string, runs int) error {
	if err := os.Unsetenv("NODE_EXTRA_CA_CERTS"); err != nil { // which node reads bare, and toolguard leaves out
		return err
	}
	dir, err := scene(toolguard)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	peers, err := peers(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `# What it costs

Compare toolguard's costs with those of its peers here. `+"`make bench`"+` wrote this page; scripts/bench has the exact commands. Compare the
ratios, not the times.

- Machine: %s
- Versions: %s

## To start a command

Each was started %d times, in turn with the others, in random order. "All built-in" is toolguard without a policy file. "The same
grants" has a mount for each path that the policy grants; bwrap and firejail otherwise let the whole system be read. bwrap filters no
system calls here, and neither of them protects parts of the workspace. "The least" is the cost of only starting the program, which
confines next to nothing. node is a program with a slow start: under toolguard it should take its own time plus that of toolguard's
start.
`, machine(), strings.Join(versions(peers), "; "), runs)
	users := []*syscall.Credential{nil}
	if os.Getuid() == 0 {
		users = append(users, &syscall.Credential{Uid: 65534, Gid: 65534})
	}
	for _, as := range users {
		times, err := measure(filepath.Join(dir, "ws"), peers, as, runs)
		if err != nil {
			return err
		}
		table(out, as, peers, times)
	}
	return nil
}

// scene makes a folder that an ordinary user may look at, with toolguard, the policy, and the workspace ws.
func scene(toolguard string) (dir string, err error) {
	if dir, err = os.MkdirTemp("/tmp", "toolguard-bench-"); err != nil {
		return "", err
	}
	for _, file := range []string{toolguard, "examples/workspace.toml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o755); err != nil {
			return "", err
		}
	}
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o777); err != nil {
		return "", err
	}
	if err := os.Chmod(ws, 0o777); err != nil { // whatever the umask is
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

type peer struct {
	name string
	argv []string
}

// peers do what each is for: read the system, write the workspace only, no network, no privileges. The first two are what the
// others are compared with.
func peers(dir string) ([]peer, error) {
	const bare = "/usr/bin/true"
	toolguard, ws, policy := filepath.Join(dir, "toolguard"), filepath.Join(dir, "ws"), filepath.Join(dir, "workspace.toml")
	mounts, err := mounts(toolguard, ws, policy)
	if err != nil {
		return nil, err
	}
	bwrap := func(mounts ...string) []string {
		return slices.Concat([]string{"bwrap"}, mounts, []string{
			"--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", ws, ws, "--unshare-all", "--die-with-parent", "--new-session", bare,
		})
	}
	return []peer{
		{"true", []string{bare}},
		{"toolguard exec", []string{toolguard, "exec", "--policy", policy, "--workspace", ws, "--", bare}},
		{"toolguard exec, all built-in", []string{toolguard, "exec", "--workspace", ws, "--", bare}},
		{"bwrap, the same grants", bwrap(mounts...)},
		{"bwrap", bwrap("--ro-bind", "/", "/")},
		{"bwrap, the least", []string{"bwrap", "--ro-bind", "/", "/", bare}},
		{"firejail", []string{
			"firejail", "--quiet", "--noprofile", "--caps.drop=all", "--nonewprivs", "--seccomp", "--net=none",
			"--private=" + ws, bare,
		}},
		{"firejail, the least", []string{"firejail", "--quiet", "--noprofile", bare}},
		{"node -e 0", []string{"/usr/bin/node", "-e", "0"}},
		{"toolguard exec, all built-in, node -e 0", []string{toolguard, "exec", "--workspace", ws, "--", "/usr/bin/node", "-e", "0"}},
	}, nil
}

// mounts are bwrap's arguments for what the policy lets be read outside the workspace. Of /dev and /proc it makes its own.
func mounts(toolguard, ws, policy string) (args []string, err error) {
	shown, err := exec.Command(toolguard, "policy", "show", "--json", "--workspace", ws, policy).Output()
	if err != nil {
		return nil, fmt.Errorf("toolguard policy show: %w", err)
	}
	var all struct {
		Layers []struct {
			Authority string
			Rules     []struct{ Resource, Text string }
		}
	}
	if err := json.Unmarshal(shown, &all); err != nil {
		return nil, err
	}
	for _, layer := range all.Layers {
		for _, rule := range layer.Rules {
			if layer.Authority == "builtin" || rule.Resource != "fs" {
				continue
			}
			text, grant := strings.CutPrefix(rule.Text, "{ path = ")
			if !grant { // of what is protected
				continue
			}
			quoted, err := strconv.QuotedPrefix(text)
			if err == nil && text[len(quoted):] == " }" { // a denial
				continue
			}
			if err != nil || !strings.HasPrefix(text[len(quoted):], ", read = true") {
				return nil, fmt.Errorf("a rule without a mount of bwrap: %s", rule.Text)
			}
			path, _ := strconv.Unquote(quoted)
			if path == "." || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
				continue
			}
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	if len(args) == 0 {
		return nil, errors.New("toolguard policy show: nothing may be read")
	}
	return args, nil
}

// measure starts each in turn and returns how long each took, in order; nil for one that can't be started here.
func measure(ws string, peers []peer, as *syscall.Credential, runs int) ([][]time.Duration, error) {
	const warmup = 10
	log, err := os.CreateTemp("", "toolguard-bench-log-") // one for all: creating files in /tmp slows the creation of folders there
	if err != nil {
		return nil, err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	env := os.Environ()
	if as != nil {
		env = append(env, "HOME="+ws)
	}
	times := make([][]time.Duration, len(peers))
	fails := make([]bool, len(peers))
	for run := -warmup; run < runs; run++ {
		for _, i := range rand.Perm(len(peers)) { // the kernel's cleanup of namespaces delays the next command
			p := peers[i]
			if fails[i] {
				continue
			}
			took, err := start(ws, p.argv, env, as, log)
			switch {
			case err == nil && run >= 0:
				times[i] = append(times[i], took)
			case err != nil && (i < 2 || run > -warmup):
				return nil, fmt.Errorf("%s: %w", p.name, err)
			case err != nil:
				fmt.Fprintf(os.Stderr, "bench: left out as %s: %s: %v\n", name(as), p.name, err)
				fails[i] = true
			}
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	return times, nil
}

// start starts a command once and returns the time. Its output goes to log: a file, not a pipe, so that no process waits for it.
func start(ws string, argv, env []string, as *syscall.Credential, log *os.File) (time.Duration, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = ws, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	var said bytes.Buffer
	if err := errors.Join(log.Truncate(0), rewind(log)); err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil {
		_ = rewind(log)
		_, _ = said.ReadFrom(log)
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return took, err
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

func table(out io.Writer, as *syscall.Credential, peers []peer, times [][]time.Duration) {
	fmt.Fprintf(out, "\n### As %s\n\n| command | median | least | beyond bare | over toolguard |\n|---|---|---|---|---|\n", name(as))
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	median := func(i int) time.Duration { return times[i][len(times[i])/2] }
	for i, p := range peers {
		if times[i] == nil {
			continue
		}
		fmt.Fprintf(out, "| %s | %.2f ms | %.2f ms | %.2f ms | %.2f× |\n", p.name, ms(median(i)), ms(times[i][0]),
			ms(median(i)-median(0)), ms(median(i))/ms(median(1)))
	}
}

func name(as *syscall.Credential) string {
	if as != nil {
		return "nobody"
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint("user ", os.Getuid())
}

// machine and versions describe the machine and the programs, as far as possible.
func machine() string {
	return fmt.Sprintf("%s, %s × %s, %s", firstLine("uname", "-srm"), firstLine("nproc"),
		firstLine("sed", "-n", "s/^model name[^:]*: //p;T;q", "/proc/cpuinfo"), firstLine("sh", "-c", `. /etc/os-release && echo "$PRETTY_NAME"`))
}

func versions(peers []peer) []string {
	v := []string{firstLine(peers[1].argv[0], "version")}
	for _, program := range []string{"bwrap", "firejail"} {
		if line := firstLine(program, "--version"); line != "" {
			v = append(v, line)
		}
	}
	return v
}

// firstLine is the first line of a program's output; empty if there's no such program.
func firstLine(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}
