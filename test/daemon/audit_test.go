//go:build linux

package daemon

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
)

// kept reads a toolguardd's audit, as `toolguard audit export` does, which takes an emulated machine much longer.
func kept(t *testing.T, state string, do func(line []byte)) {
	t.Helper()
	r := audit.NewReader(state+"/audit", audit.Cursor{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			return
		}
		must(t, err)
		do(line)
	}
}

// auditOf are the events of a kind in a toolguardd's audit, or all.
func auditOf(t *testing.T, state, kind string) (list []told) {
	t.Helper()
	kept(t, state, func(line []byte) {
		if kind == "" || bytes.Contains(line, []byte(`"kind":"`+kind+`"`)) {
			list = append(list, toldBy(t, line))
		}
	})
	return list
}

func verified(t *testing.T, state string) string {
	t.Helper()
	out, err := exec.Command(built+"/toolguard", "audit", "verify", state+"/audit").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

// What happens under toolguardd is kept, also where it's killed amidst it.
func TestAudit(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	first := newJob(t, nobody, work+"[[access.env]]\nname = \"AWS_*\"\nread = false\n", `read x <OUTSIDE; exit 7`)
	first.Env = append(first.Env, "AWS_REGION=x")
	if got := first.start().status(); got != 7 {
		t.Errorf("exit status %d", got)
	}
	kinds := ""
	eventually(t, "the session's end is kept", func() bool {
		kinds = ""
		for _, e := range auditOf(t, state, "") {
			kinds += " " + e.Kind
		}
		return strings.Contains(kinds, "session_end")
	})
	if told := strings.ReplaceAll(kinds, " checkpoint", ""); told == kinds || !strings.Contains(told, "daemon session_start denial session_end") { // one a minute
		t.Error(kinds)
	}
	if own, kept := first.told()[0].Removed, auditOf(t, state, "session_start")[0].Removed; !slices.Contains(own, "AWS_REGION") || !slices.Equal(own, kept) {
		t.Errorf("of its environment %q were removed, and %q are kept", own, kept)
	}
	j := newJob(t, nobody, work, `while :; do read x <OUTSIDE; sleep 0.01; done 2>/dev/null`).start()
	eventually(t, "it's refused", func() bool { return len(auditOf(t, state, "denial")) > 1 })
	s.stop(syscall.SIGKILL)
	verified(t, state)
	s = serve(t, state)
	_ = j.Process.Kill()
	eventually(t, "both sessions have ended", func() bool { return len(auditOf(t, state, "session_end")) == 2 })
	s.stop(syscall.SIGTERM)
	out := verified(t, state)
	if !strings.Contains(out, "sound:") || !strings.Contains(out, "of a number that nobody knows") {
		t.Error(out)
	}
	list := auditOf(t, state, "")
	last := list[len(list)-2]
	if end := list[len(list)-1]; end.Extra["what"] != "closed" || last.Extra["what"] != "toolguardd stopped" {
		t.Errorf("%+v %+v", last, end)
	}
}
