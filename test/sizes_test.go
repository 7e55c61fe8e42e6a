package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSizes: names are easier to find in small files, so a package has at most 4,000 lines outside tests and a file 400.
func TestSizes(t *testing.T) {
	for _, p := range packages(t, "linux") {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		if !strings.HasPrefix(rel, "internal/") && !strings.HasPrefix(rel, "cmd/") {
			continue
		}
		sum := 0
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			must(t, err)
			if bytes.HasPrefix(text, []byte("// Code generated")) {
				continue
			}
			n := bytes.Count(text, []byte("\n"))
			if sum += n; n > 400 {
				t.Errorf("%s/%s has %d lines, more than 400", rel, name, n)
			}
		}
		if sum > 4000 {
			t.Errorf("%s has %d lines outside tests, more than 4000", rel, sum)
		}
	}
}

// TestNoBinaries: a program that was built by hand must not be committed.
func TestNoBinaries(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	list, err := cmd.Output()
	must(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			continue // it's being removed
		}
		if info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes: is it a result of a build?", name, info.Size())
		}
	}
}

// TestWhereThingsAre: these files answer the questions of an engineer who looks for the position of a change.
func TestWhereThingsAre(t *testing.T) {
	for question, files := range map[string][]string{
		"what does a rule become?":                              {"policy/fs_compile.go", "policy/net_compile.go", "policy/command_compile.go"},
		"which of two rules wins?":                              {"policy/specificity.go", "policy/fspath/table.go"},
		"what does the kernel read?":                            {"loader/image/image.go", "../bpf/lib/image.h"},
		"where is a path decided in the kernel?":                {"../bpf/lib/match.h", "../bpf/lsm/file.c"},
		"in which order does a run happen?":                     {"session/run_linux.go", "session/run_seatbelt.go"},
		"where does the command start? where do orphans end?":   {"session/launch/command_linux.go", "session/launch/orphans_linux.go"},
		"why was this backend chosen, and what isn't enforced?": {"session/backend/select.go", "session/backend/report.go"},
		"where is a denial event made?":                         {"session/denials/bpf_linux.go", "session/denials/landlock_linux.go", "session/denials/network_linux.go"},
		"where is a name resolved to addresses?":                {"egress/resolve.go", "egress/dns/client.go"},
		"who may ask toolguardd for what?":                      {"daemon/peer/peer_linux.go", "daemon/routes_linux.go"},
	} {
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(root, "internal", file)); err != nil {
				t.Errorf("%s %v", question, err)
			}
		}
	}
}
