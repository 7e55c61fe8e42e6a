// Command guest measures what toolguard costs processes, in a virtual machine whose kernel has BPF among its LSMs, and prints
// tables for docs/BENCHMARKS.md. It needs toolguard and toolguardd in the folder of its argument, and root; with "time" it measures
// in wall-clock time. With the three words of an order it's one of the measured processes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch len(args) {
	case 1:
		return measure(args[0], unconfined, confined, denials, starts) // in this order: at first nothing of toolguard is in the kernel
	case 2:
		if args[1] == "time" {
			return measure(args[0], inTime)
		}
	case 3:
		times, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return order{args[0], times, args[2]}.do()
	}
	return fmt.Errorf("usage: guest FOLDER [time] | guest open|denied|stat|exec TIMES PATH")
}

func measure(built string, parts ...func(*scene) error) error {
	s, err := newScene(built)
	if err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	for _, part := range parts {
		if err := part(s); err != nil {
			return err
		}
	}
	return nil
}

// scene is the measured processes' file tree: a workspace with a file some folders deep, folders for rules to be about, and a
// secret that no rule grants.
type scene struct {
	dir, workspace, file, secret string
	toolguard, toolguardd, self  string
}

// The maximum number of rules of a policy here, without the built-in ones.
const maxRules = 10000

func newScene(built string) (*scene, error) {
	dir, err := os.MkdirTemp("/tmp", "bench-")
	if err != nil {
		return nil, err
	}
	s := &scene{
		dir: dir, workspace: dir + "/workspace", file: dir + "/workspace/src/internal/file", secret: dir + "/secret",
		toolguard: filepath.Join(built, "toolguard"), toolguardd: filepath.Join(built, "toolguardd"), self: dir + "/workspace/guest",
	}
	for i := range maxRules {
		if err := os.MkdirAll(s.folder(i), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return nil, err
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{s.file: []byte("content\n"), s.secret: []byte("secret\n"), s.self: program} {
		if err := os.WriteFile(name, content, 0o755); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// folder is the i-th rule's path.
func (s *scene) folder(i int) string { return fmt.Sprintf("%s/rules/%d/%d", s.dir, i%100, i) }

// policy writes a policy with that many rules, all of which Landlock can enforce, too, and returns its path.
func (s *scene) policy(rules int) (string, error) {
	name := fmt.Sprintf("%s/%d.toml", s.dir, rules)
	file, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	fmt.Fprint(file, "version = 1\n[access]\ndefault = { fs = \"deny\", net = \"deny\", env = \"allow\" }\nprotect = false\n"+
		"[[access.fs]]\npath = \".\"\nread = true\nwrite = true\nexecute = true\n")
	for i := range rules - 1 {
		fmt.Fprintf(file, "[[access.fs]]\npath = %q\nread = true\n", s.folder(i))
	}
	return name, file.Close()
}
