package cgroup

import (
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

func TestResources(t *testing.T) {
	if res, err := resources(policy.Limits{OpenFiles: policy.Count{N: 5}}); res != nil || err != nil {
		t.Errorf("without a limit of ours: %+v, %v", res, err)
	}
	res, err := resources(policy.Limits{
		Memory: policy.Bytes{N: 1 << 62 << 1}, Pids: policy.Count{N: 64}, CPU: policy.Percent{N: 150}, IO: policy.Bytes{N: 1001},
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Memory == nil || *res.Memory.Max != 1<<63-1 {
		t.Errorf("memory: %+v", res.Memory)
	}
	if res.Pids == nil || res.Pids.Max != 64 {
		t.Errorf("pids: %+v", res.Pids)
	}
	if res.CPU == nil || res.CPU.Max != "150000 100000" {
		t.Errorf("cpu: %+v", res.CPU)
	}
	got := res.EnabledControllers()
	slices.Sort(got)
	if !slices.Equal(got, []string{"cpu", "io", "memory", "pids"}) {
		t.Errorf("controllers: %v", got)
	}
	var lines []string
	for _, e := range ioMax(1001, []disk{{254, 0}}) {
		lines = append(lines, e.String())
	}
	if !slices.Equal(lines, []string{"254:0 rbps=500", "254:0 wbps=500"}) {
		t.Errorf("io: %q", lines)
	}
	if e := ioMax(1, []disk{{1, 2}})[0]; e.Rate != 1 {
		t.Errorf("a rate of nothing would be no limit: %+v", e)
	}
}

func TestParseKeyed(t *testing.T) {
	got, err := parseKeyed([]byte("populated 1\nfrozen 0\n"))
	if err != nil || got["populated"] != 1 || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseKeyed([]byte("populated\n")); err == nil {
		t.Error("a line without a number was accepted")
	}
}
