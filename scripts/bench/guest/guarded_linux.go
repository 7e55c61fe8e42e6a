package main

import (
	"fmt"
	"os"
)

// What guarded processes do. As often as takes some milliseconds each time.
func (s *scene) orders() []order {
	return []order{{"open", 400, s.file}, {"stat", 800, s.file}, {"exec", 4, "/usr/bin/true"}}
}

// unrestricted is for the system call filters alone: nothing restricts files, and Landlock's backend is told that it may leave
// the files of toolguard to themselves.
const unrestricted = "toolguard.1,toolguard.2,toolguard.3,toolguard.4,toolguard.5,toolguard.6"

// guarded compares guards: none, the system call filters that come with each, and Landlock and the programs with as many rules.
func guarded(s *scene) error {
	workers, err := s.guards(10, 1000, maxRules)
	defer func() { endAll(workers) }()
	if err != nil {
		return err
	}
	fmt.Print(`
### What runs under a guard

Against the same without a guard, beside toolguardd: the least of 60 times. "Again" is a second one without a guard: how far it is from
1.00× is how far these numbers may be off. Landlock and the programs (bpf) hold the same rules, all of which grant, beside some 70
built-in ones, and the same system call filters come with both.

| guard | open, read, close | stat | fork, execute, wait |
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

// guards starts a worker without a guard, another one, one behind system call filters, and one for each wall and number of rules.
func (s *scene) guards(rules ...int) (workers []*worker, err error) {
	free := s.dir + "/free.toml"
	if err := os.WriteFile(free, []byte("version = 1\n[access]\ndefault = \"allow\"\nprotect = false\n"), 0o644); err != nil {
		return nil, err
	}
	add := func(name, wall string, args ...string) error {
		w, err := s.worker(name, wall, args...)
		if err == nil {
			workers = append(workers, w)
		}
		return err
	}
	if err := add("none", ""); err != nil {
		return workers, err
	}
	if err := add("none, again", ""); err != nil {
		return workers, err
	}
	if err := add("system call filters alone", "landlock", "--policy", free, "--allow-degraded", unrestricted); err != nil {
		return workers, err
	}
	for _, n := range rules {
		policy, err := s.policy(n)
		if err != nil {
			return workers, err
		}
		for _, wall := range []string{"landlock", "bpf"} {
			if err := add(fmt.Sprintf("%s, %d rules", wall, n), wall, "--policy", policy); err != nil {
				return workers, err
			}
		}
	}
	return workers, nil
}
