package cgroup

import (
	"math"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// What is written to the kernel's files, as cgroup-v2.rst describes them.
func TestSettings(t *testing.T) {
	rows := []struct {
		name   string
		limits policy.Limits
		want   string
	}{
		{"nothing", policy.Limits{}, ""},
		{"memory, and no swap beside it", policy.Limits{Memory: policy.Bytes{N: 1 << 30}}, "memory.max=1073741824 memory.swap.max=0"},
		{"memory beyond what the kernel counts", policy.Limits{Memory: policy.Bytes{N: math.MaxUint64}}, "memory.max=9223372036854775807 memory.swap.max=0"},
		{"processes", policy.Limits{Pids: policy.Count{N: 256}}, "pids.max=256"},
		{"one and a half processors", policy.Limits{CPU: policy.Percent{N: 150}}, "cpu.max=150000 100000"},
		{"one hundredth of one", policy.Limits{CPU: policy.Percent{N: 1}}, "cpu.max=1000 100000"},
	}
	for _, r := range rows {
		all, err := settings(r.limits)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range all {
			for _, v := range s.values {
				got = append(got, s.file+"="+v)
			}
		}
		if s := strings.Join(got, " "); s != r.want {
			t.Errorf("%s: %q, want %q", r.name, s, r.want)
		}
	}
	if got := ioMax(1000, []string{"8:0", "259:1"}); strings.Join(got, ";") != "8:0 rbps=500 wbps=500;259:1 rbps=500 wbps=500" {
		t.Errorf("io: %q", got)
	}
	if got := ioMax(1, []string{"8:0"}); got[0] != "8:0 rbps=1 wbps=1" {
		t.Errorf("io: %q: zero would mean something else to the kernel", got)
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"0123abcd": true, "a": true, "a_b-c": true, "": false, "-a": false, "..": false, "a/b": false, "a b": false, "a.b": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
	} {
		if validID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}
