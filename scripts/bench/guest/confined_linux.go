package main

import (
	"fmt"
	"os"
)

// The orders of confined processes. Each repeats its operation for some milliseconds.
func (s *scene) orders() []order {
	return []order{{"open", 400, s.file}, {"stat", 800, s.file}, {"exec", 4, "/usr/bin/true"}}
}

// unrestricted is the policy for measuring the seccomp filters only: it doesn't restrict files, and permits the Landlock backend not to
// protect toolguard's own files.
const unrestricted = "toolguard.1,toolguard.2,toolguard.3,toolguard.4,toolguard.5,toolguard.6"

// confined compares backends: none, the seccomp filters of each, and Landlock and the BPF programs with the same number of rules.
func confined(s *scene) error {
	workers, err := s.workers(10, 1000, maxRules)
	defer func() { endAll(workers) }()
	if err != nil {
		return err
	}
	fmt.Print(`
### Confined processes

Compared with an unconfined process while toolguardd runs: the minimum of 60 times. "Again" is a second unconfined process: its difference from
1.00× is the measurement error. Landlock and the BPF programs (bpf) enforce the same rules, all of which grant, in addition to some 70
built-in ones, both with the same system call filters.

| confined by | open, read, close | stat | fork, execute, wait |
|---|---|---|---|
`)
	times, err := turns(workers, s.orders(), 60)
	if err != nil {
		return err
	}
	for i, w := range workers {
		fmt.Printf("| %s |", w.name)
		for j := range times[i] {
			fmt.Printf(" %.2f× |", ratio(times[i][j][0], times[0][j][0]))
		}
		fmt.Println()
	}
	return nil
}

// workers starts two unconfined workers, one with seccomp filters only, and one for each backend and number of rules.
func (s *scene) workers(rules ...int) (workers []*worker, err error) {
	free := s.dir + "/free.toml"
	if err := os.WriteFile(free, []byte("version = 1\n[access]\ndefault = \"allow\"\nprotect = false\n"), 0o644); err != nil {
		return nil, err
	}
	add := func(name, backend string, args ...string) error {
		w, err := s.worker(name, backend, args...)
		if err == nil {
			workers = append(workers, w)
		}
		return err
	}
	if err := add("nothing", ""); err != nil {
		return workers, err
	}
	if err := add("nothing, again", ""); err != nil {
		return workers, err
	}
	if err := add("only system call filters", "landlock", "--policy", free, "--allow-degraded", unrestricted); err != nil {
		return workers, err
	}
	for _, n := range rules {
		policy, err := s.policy(n)
		if err != nil {
			return workers, err
		}
		for _, backend := range []string{"landlock", "bpf"} {
			if err := add(fmt.Sprintf("%s, %d rules", backend, n), backend, "--policy", policy); err != nil {
				return workers, err
			}
		}
	}
	return workers, nil
}
