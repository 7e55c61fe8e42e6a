package loader

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A policy and folders that are made to be expensive don't occupy the processor longer than a decision may: the result is a denial.
func TestCostly(t *testing.T) {
	const others, depth = 1024, 110
	k := kernel(t)
	dir := scene(t, "shallow", "deep/file")
	name := strings.Repeat("a", 255)
	rules := []string{"/ read+create+update+delete", "/zz none"}
	for i := 1; i <= 250; i++ {
		rules = append(rules, "/**/"+name[:i]+"* none", "/**/*"+name[:i]+" none")
	}
	c := compile(t, rules...)
	for i := range others {
		c.Aliases = append(c.Aliases, fspath.Alias{From: dir + "/deep", To: fmt.Sprintf("/b%d", i), Depth: 1})
	}
	image, err := image.New(c, 1)
	must(t, err)
	s, err := k.Begin(newID(), image, FlagsOf(c))
	must(t, err)
	deep := beneath(t, dir+"/deep", name, depth)
	var h *collected
	confined(t, s, func() {
		h = listen(s)
		if !may(t, dir+"/shallow") || !may(t, dir+"/deep/file") {
			t.Error("what's followed in a few steps may be read")
		}
		if _, err := unix.Openat(deep, ".", unix.O_RDONLY|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EACCES) {
			t.Errorf("opened, though the decision needs too many steps: %v", err)
		}
	})
	end(t, s)
	if len(h.events) != 1 || h.events[0].Why != WhyUnresolved || h.events[0].Walk != WalkCostly {
		t.Errorf("%+v", h.events)
	}
}
