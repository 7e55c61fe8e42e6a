package cgroup

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

const (
	hybridInfo = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	unifiedInfo = `23 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate
`
	twoViews = `50 24 0:26 /user.slice /mnt/part\040of\134it rw - cgroup2 none rw
30 24 0:26 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 cgroup2 rw
`
)

func TestModeOf(t *testing.T) {
	for _, c := range []struct {
		name, info string
		mode       Mode
		point      string
	}{
		{"hybrid", hybridInfo, Hybrid, "/sys/fs/cgroup/unified"},
		{"unified", unifiedInfo, Unified, "/sys/fs/cgroup"},
		{"the larger view", twoViews, Unified, "/sys/fs/cgroup"},
		{"only a part", strings.SplitAfter(twoViews, "\n")[0], Unified, `/mnt/part of\it`},
		{"legacy", strings.SplitAfter(hybridInfo, "\n")[1], Legacy, ""},
		{"none", "", None, ""},
		{"a mount point that says cgroup2", "1 2 0:3 / /cgroup2 rw - tmpfs cgroup2 rw\n", None, ""},
	} {
		mounts, err := parseMountinfo([]byte(c.info))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if m, v2 := modeOf(mounts); m != c.mode || v2.point != c.point {
			t.Errorf("%s: %v at %q; want %v at %q", c.name, m, v2.point, c.mode, c.point)
		}
	}
}

func TestMountinfoMalformed(t *testing.T) {
	for _, s := range []string{"x\n", "1 2 3\n", "1 2 0:3 / /x rw tmpfs none rw\n", "1 2 0:3 / /x rw - \n"} {
		if _, err := parseMountinfo([]byte(s)); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestPathsBelow(t *testing.T) {
	for _, c := range []struct {
		root, own string
		want      string // "" for not visible
	}{
		{"/", "/", "/"},
		{"/", "/a/b", "/ /a /a/b"},
		{"/a", "/a/b", "/ /b"},
		{"/a", "/a", "/"},
		{"/a", "/ab", ""},
		{"/a/b", "/a", ""},
	} {
		got, ok := pathsBelow(c.root, c.own)
		if strings.Join(got, " ") != c.want || ok != (c.want != "") {
			t.Errorf("below(%q, %q) = %q, %v; want %q", c.root, c.own, got, ok, c.want)
		}
	}
}

func TestOwnPath(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ok         bool
	}{
		{"0::/\n", "/", true},
		{"4:memory:/x\n0::/user.slice/a b\n", "/user.slice/a b", true},
		{"4:memory:/x\n", "", false},
		{"0::/../outside\n", "/outside", false}, // outside this cgroup namespace
	} {
		if got, ok := ownPath([]byte(c.text)); ok != c.ok || (ok && got != c.want) {
			t.Errorf("ownPath(%q) = %q, %v", c.text, got, ok)
		}
	}
}

func TestReport(t *testing.T) {
	all := policy.Limits{
		Memory: policy.Bytes{N: 1 << 30}, Pids: policy.Count{N: 10}, CPU: policy.Percent{N: 150}, IO: policy.Bytes{N: 1 << 20},
	}
	unified := Support{Mode: Unified, Mount: "/c", Base: "/", Controllers: []string{"cpu", "io", "memory", "pids"}}
	without := func(lost string) Support {
		f := unified
		f.Controllers = slices.DeleteFunc(slices.Clone(f.Controllers), func(c string) bool { return c == lost })
		f.Why = missingControllers(f)
		return f
	}
	nothing := Support{Mode: Hybrid, Mount: "/c", Base: "/"}
	nothing.Why = missingControllers(nothing)
	for _, c := range []struct {
		name   string
		limits policy.Limits
		facts  Support
		want   string
	}{
		{"none set", policy.Limits{OpenFiles: policy.Count{N: 1}}, nothing, ""},
		{"all there", all, unified, "memory:enforced pids:enforced cpu:enforced io:enforced"},
		{"no pids", all, without("pids"), "memory:enforced pids:not enforceable cpu:enforced io:enforced"},
		{"no memory", all, without("memory"), "memory:not enforceable pids:enforced cpu:enforced io:partly"},
		{"hybrid", all, nothing, "memory:not enforceable pids:not enforceable cpu:not enforceable io:not enforceable"},
		{"absurd", policy.Limits{CPU: policy.Percent{N: 1 << 60}}, unified, "cpu:not enforceable"},
	} {
		var got []string
		for _, row := range Report(&policy.Compiled{Limits: c.limits}, c.facts) {
			got = append(got, strings.TrimPrefix(row.ID, "limits.")+":"+row.Status.String())
			if row.Status != policy.Enforced && row.Why == "" {
				t.Errorf("%s: %s doesn't say why", c.name, row.ID)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, s, c.want)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	for _, s := range []string{hybridInfo, unifiedInfo, twoViews} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		mounts, err := parseMountinfo(b)
		if err == nil {
			modeOf(mounts)
		}
	})
}
