package darwin_test

import (
	"fmt"
	"testing"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy/written"
)

// BenchmarkRender renders policies with a number of rules for paths, and the built-in ones.
func BenchmarkRender(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		text := "version = 1\n" + workspace + match("**/.env")
		for i := range n {
			text += path(fmt.Sprintf("d%d/e%d", i%10, i), "read")
		}
		c, err := written.Compile(written.Request{Policies: []string{"p.toml"}, Workspace: "/Users/me/ws", Home: "/Users/me", Dir: "/"},
			func(string, int) ([]byte, error) { return []byte(text), nil })
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d rules", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := darwin.Render(c, darwin.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
