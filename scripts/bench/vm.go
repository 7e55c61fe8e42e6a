package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// guest has scripts/bench/guest measure in a virtual machine.
func guest(out io.Writer, series string) error {
	if series == "" {
		return fmt.Errorf("%w: no virtual machine was asked for", errNotHere)
	}
	dir, err := os.MkdirTemp("", "toolguard-bench-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	built, err := output("scripts/vm/built")
	if err != nil {
		return err
	}
	if _, err := output("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/guest", "./scripts/bench/guest"); err != nil {
		return err
	}
	grants, err := mounts("bin/toolguard", dir, "examples/workspace.toml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(dir+"/mounts", []byte(strings.Join(grants, "\n")), 0o644); err != nil {
		return err
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return err
	}
	files := []string{built, dir + "/guest", dir + "/mounts", "examples/workspace.toml", bwrap}
	counted, err := tables(series, dir, files, "", "-c")
	if err != nil {
		return err
	}
	timed, err := tables(series, dir, files, "time")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `In a virtual machine with Linux %s and one emulated processor, whose clock counts executed instructions: an instruction takes a
nanosecond. The results don't depend on this machine's load. But instructions differ on a real processor: it executes many of the BPF programs'
at once, and few of the kernel's own, which wait for memory and for each other. Times are above, under
"To decide", and at the end.
%s%s`, series, counted, timed)
	return nil
}

// tables is what the guest's program prints in a virtual machine that is run so. The first of the files is the folder of toolguard.
func tables(series, dir string, files []string, what string, how ...string) (string, error) {
	run := append(how, "-k", series, "-m", "3072", "-t", "7200", "-o", dir)
	for _, file := range files {
		run = append(run, "-f", file)
	}
	said, err := output("scripts/vm/run", append(run, "--", "sh", "-c", `./guest "$0" $1 >/out/tables`, "/t/"+filepath.Base(files[0]), what)...)
	if err != nil {
		return "", fmt.Errorf("the virtual machine: %w: %s", err, said)
	}
	text, err := os.ReadFile(dir + "/tables")
	return string(text), err
}

// output runs a program, whose progress is shown, and returns what it printed.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	return strings.TrimSpace(string(text)), err
}
