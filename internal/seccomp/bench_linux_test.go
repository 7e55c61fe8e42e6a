package seccomp

import (
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

func BenchmarkFilters(b *testing.B) {
	c := compile(b, denies(policy.FS, policy.Net))
	for b.Loop() {
		if _, err := Filters(c, Backend{ABI: 7}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	filters, err := Filters(compile(b, denies(policy.FS, policy.Net)), Backend{ABI: 7})
	must(b, err)
	childtest.Bench(b, func() error { return load(filters) })
}
