package loader

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A rule about /proc/self applies to every process of the session, and no other.
func TestOwnProcesses(t *testing.T) {
	k := kernel(t)
	s, c := begin(t, k, "/usr read+execute", "/bin read+execute", "/lib read+execute", "/lib64 read+execute", "/etc read",
		"/dev/null read+update", "/proc/self read")
	const script = `sleep 100 & read -r line </proc/$!/stat && echo read
		(read -r line </proc/$$/task/$$/stat && echo read)
		read -r line </proc/1/stat || echo denied
		echo 1 >/proc/$!/oom_score_adj || echo denied
		kill $!`
	var h *collected
	var out []byte
	confined(t, s, func() {
		h = listen(s)
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = "/"
		var err error
		if out, err = cmd.Output(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.End(); err != nil {
		t.Error(err)
	}
	if got, want := strings.Fields(string(out)), []string{"read", "read", "denied", "denied"}; !slices.Equal(got, want) {
		t.Errorf("the shell wrote %q, want %q", got, want)
	}
	for _, want := range []string{
		"open rule /proc/1/stat needs read has none: no rule",
		"open rule /proc/self/oom_score_adj needs update has read: fs.7",
	} {
		if lines := h.lines(c); !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, want) }) {
			t.Errorf("no event %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}
