package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

// TestBypasses checks that docs/BYPASSES.md names, for every trick, a test that exists and that scripts/vm/plan runs.
func TestBypasses(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/BYPASSES.md"))
	must(t, err)
	planned := coreTests(t)
	rows := 0
	named := regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z]+)(/[a-z0-9_]+)?`")
	state := regexp.MustCompile("^ (mitigated|stated gap|refused|–) $")
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| trick") {
			continue
		}
		rows++
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if len(cells) != 6 || !state.MatchString(cells[2]) || !state.MatchString(cells[3]) {
			t.Errorf("line %d isn't trick, two states, test", i+1)
			continue
		}
		tests := named.FindAllStringSubmatch(cells[4], -1)
		if tests == nil {
			t.Errorf("line %d names no test", i+1)
		}
		for _, m := range tests {
			if !declares(t, m[1], m[2]) {
				t.Errorf("line %d: there is no %s in %s", i+1, m[2], m[1])
			}
			if !planned(m[1], m[2]) {
				t.Errorf("line %d: scripts/vm/plan's tier core doesn't run %s.%s", i+1, m[1], m[2])
			}
			// The rows of the attacks are named after their programs, and each program has its row.
			if found, _ := filepath.Glob(filepath.Join(root, m[1], "src"+m[3]+".*")); m[3] != "" && found == nil {
				t.Errorf("line %d: there is no %s%s", i+1, m[2], m[3])
			}
		}
	}
	if rows < 50 {
		t.Errorf("only %d tricks found", rows)
	}
}

// coreTests returns whether make test runs a package's test: on one of Debian's kernels, or on the host if that has the features.
func coreTests(t *testing.T) func(pkg, name string) bool {
	t.Helper()
	plan, err := os.ReadFile(filepath.Join(root, "scripts/vm/plan"))
	must(t, err)
	type planned struct{ run, skip *regexp.Regexp }
	never, all := regexp.MustCompile("^$"), regexp.MustCompile("")
	plans := map[string][]planned{"test/attacks": {{regexp.MustCompile("^TestConfined$"), never}}}
	for _, pkg := range []string{"internal/allowlist", "internal/kernelaudit", "internal/landlock", "internal/policy", "internal/policy/policyfile", "internal/egress", "internal/egress/ownaddr", "internal/daemon", "internal/daemon/peer", "internal/loader/cgroupsock", "internal/seccomp", "test/net", "test/run"} {
		plans[pkg] = []planned{{all, never}}
	}
	for line := range strings.Lines(string(plan)) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] == "core" {
			p := planned{all, never}
			if f[3] != "bypasses" { // all that docs/BYPASSES.md names
				p.run = regexp.MustCompile(f[3])
			}
			for _, argument := range f[4:] {
				if skipped, is := strings.CutPrefix(argument, "-test.skip="); is {
					p.skip = regexp.MustCompile(skipped)
				}
			}
			plans[f[2]] = append(plans[f[2]], p)
		}
	}
	return func(pkg, name string) bool {
		return slices.ContainsFunc(plans[pkg], func(p planned) bool { return p.run.MatchString(name) && !p.skip.MatchString(name) })
	}
}

// declares reports whether a package's folder has a test function.
func declares(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	must(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// TestEveryAttackIsListed checks that docs/BYPASSES.md has every attack.
func TestEveryAttackIsListed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/BYPASSES.md"))
	must(t, err)
	sources, err := filepath.Glob(filepath.Join(root, "test/attacks/src/*.*"))
	if err != nil || len(sources) < 40 {
		t.Fatalf("%d attacks: %v", len(sources), err)
	}
	for _, src := range sources {
		name := strings.TrimSuffix(filepath.Base(src), filepath.Ext(src))
		switch name {
		case "attack", "noop", "parent", "setuid_target", "victim", "honest_work", "socketpair": // no tricks
			continue
		}
		if !strings.Contains(string(text), "TestConfined/"+name+"`") && !strings.Contains(string(text), "TestConfinedByBPF/"+name+"`") {
			t.Errorf("%s isn't in docs/BYPASSES.md", name)
		}
	}
}

// TestStatedGapsInDocs compares docs/BACKENDS.md with the gaps that doctor prints on this machine.
func TestStatedGapsInDocs(t *testing.T) {
	if !hasLandlock() {
		t.Skip("needs landlock")
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/BACKENDS.md"))
	must(t, err)
	out, code := run(t, t.TempDir(), toolguard(t), "doctor", "--json")
	var doctor struct {
		Backends []struct {
			Name string
			Gaps []string
		}
	}
	if err := json.Unmarshal([]byte(out), &doctor); err != nil || code != 0 {
		t.Fatalf("doctor: exit %d, %v\n%s", code, err, out)
	}
	gaps := 0
	for _, b := range doctor.Backends {
		for _, gap := range b.Gaps {
			gaps++
			if !strings.Contains(string(page), "\n- "+gap+"\n") && !strings.Contains(gap, "before Landlock ABI") {
				t.Errorf("docs/BACKENDS.md doesn't have this gap of %s:\n- %s", b.Name, gap)
			}
		}
	}
	if gaps == 0 {
		t.Error("doctor knows no gaps")
	}
}

// TestCommandsInDocs checks that the commands in the documents exist, with their flags.
func TestCommandsInDocs(t *testing.T) {
	bin := toolguard(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	must(t, err)
	command := regexp.MustCompile("(?m)^(?: {4}|\\$ )toolguard( .*)|`toolguard( [^`]*)`")
	helps := map[string]string{}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], " -- ")
			line, _, _ = strings.Cut(line, " #")
			if line == " audit checkpoint" { // the text that checkpoints sign
				continue
			}
			found++
			name := regexp.MustCompile(`^( [a-z]+)+`).FindString(line)
			help, ok := helps[name]
			if !ok {
				help, _ = run(t, t.TempDir(), bin, append([]string{"help"}, strings.Fields(name)...)...)
				helps[name] = help
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
				if !regexp.MustCompile(`(?m)^ .*` + flag + `\b`).MatchString(help) {
					t.Errorf("%s: toolguard%s: there's no %s in\n%s", filepath.Base(page), line, flag, help)
				}
			}
			if !strings.Contains(help, "toolguard "+strings.Fields(name)[0]) {
				t.Errorf("%s: toolguard%s: %s", filepath.Base(page), line, help)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands found", found)
	}
}
