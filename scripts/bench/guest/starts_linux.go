package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// starts measures starting a command: through toolguardd, by toolguard itself, and by bwrap, with the mounts for the same grants from a
// file, which lists them as on the host.
func starts(s *scene) error {
	text, err := os.ReadFile("mounts")
	if err != nil {
		return err
	}
	d := &daemon{s: s}
	if _, err := d.start(); err != nil {
		return err
	}
	defer d.end(syscall.SIGTERM)
	const bare, runs = "/usr/bin/true", 20
	toolguard := func(args ...string) []string {
		return slices.Concat([]string{s.toolguard, "exec", "--policy", "workspace.toml", "--workspace", s.workspace}, args, []string{"--", bare})
	}
	bwrap := func(mounts ...string) []string {
		return slices.Concat([]string{"./bwrap"}, mounts, []string{
			"--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", s.workspace, s.workspace, "--unshare-all", "--die-with-parent",
			"--new-session", bare,
		})
	}
	rows := []struct {
		name string
		argv []string
	}{
		{"true", []string{bare}},
		{"toolguard exec, bpf, through toolguardd", toolguard("--backend", "bpf", "--daemon", "require")},
		{"toolguard exec, bpf, by itself", toolguard("--backend", "bpf", "--daemon", "none")},
		{"toolguard exec, landlock", toolguard("--backend", "landlock", "--daemon", "none")},
		{"bwrap, the same grants", bwrap(strings.Fields(string(text))...)},
		{"bwrap", bwrap("--ro-bind", "/", "/")},
	}
	least := make([]time.Duration, len(rows))
	for range runs {
		for _, i := range rand.Perm(len(rows)) {
			cmd := exec.Command(rows[i].argv[0], rows[i].argv[1:]...)
			began := time.Now()
			if output, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", rows[i].name, err, output)
			}
			if took := time.Since(began); least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	fmt.Print(`
### To start a command

The same policy, and mounts for the same grants, as at the beginning of this page: the minimum of 20 times. Waiting counts as time.
For a policy with limits, or with grants of the network, toolguardd also moves the command to a cgroup, for which the kernel waits
some milliseconds.

| command | ms | beyond bare | over bwrap, the same grants |
|---|---|---|---|
`)
	for i, row := range rows {
		fmt.Printf("| %s | %.1f | %.1f | %.2f× |\n", row.name, least[i].Seconds()*1e3, (least[i]-least[0]).Seconds()*1e3, ratio(least[i], least[4]))
	}
	return nil
}
