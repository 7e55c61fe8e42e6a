package landlock

import (
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// defaultPolicy is the policy of a file without [access]: the workspace and the files that programs need to start.
func defaultPolicy(b *testing.B) *policy.Compiled {
	b.Helper()
	layer := policy.SourceLayer{Runtime: runtimeRules(), FS: []policy.FSRule{rule(".", r|w)}}
	for _, p := range []string{
		"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/resolv.conf",
		"/etc/localtime", "/etc/ssl/certs", "/dev/zero", "/dev/urandom", "/dev/tty", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
		"/proc/version", "/proc/loadavg", "/proc/uptime", "/proc/filesystems", "/sys/devices/system/cpu", "/sys/fs/cgroup",
		"/proc/sys/kernel/osrelease", "/proc/sys/kernel/random", "/proc/sys/vm/overcommit_memory", "/etc/profile", "/etc/terminfo",
	} {
		layer.Runtime = append(layer.Runtime, policy.FSRule{Path: p, Caps: policy.Read, Optional: true})
	}
	layer.Defaults[policy.Net] = policy.Deny
	return compileAt(b, b.TempDir(), layer)
}

func BenchmarkPlan(b *testing.B) {
	c := defaultPolicy(b)
	for b.Loop() {
		if _, err := NewPlan(c, 7); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	c := defaultPolicy(b)
	for b.Loop() {
		Report(c, 7)
	}
}

func BenchmarkApply(b *testing.B) {
	p, err := NewPlan(defaultPolicy(b), abi(b))
	childtest.Must(b, err)
	childtest.Bench(b, p.Apply)
}

func BenchmarkCanary(b *testing.B) {
	for b.Loop() {
		childtest.Must(b, Canary())
	}
}
