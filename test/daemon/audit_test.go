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

// readAudit reads a toolguardd's audit, like `toolguard audit export`, which is much slower on an emulated machine.
func readAudit(t *testing.T, state string, do func(line []byte)) {
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

// auditOf returns the events of a kind in a toolguardd's audit; "": all.
func auditOf(t *testing.T, state, kind string) (list []seenEvent) {
	t.Helper()
	readAudit(t, state, func(line []byte) {
		if kind == "" || bytes.Contains(line, []byte(`"kind":"`+kind+`"`)) {
			list = append(list, parseEvent(t, line))
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

// The events of toolguardd's sessions are recorded, even if it's killed.
func TestAudit(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	first := newJob(t, nobodyUID, work+"[[access.env]]\nname = \"AWS_*\"\nread = false\n", `read x <OUTSIDE; exit 7`)
	first.Env = append(first.Env, "AWS_REGION=x")
	if got := first.start().status(); got != 7 {
		t.Errorf("exit status %d", got)
	}
	kinds := ""
	eventually(t, "the session's end is recorded", func() bool {
		kinds = ""
		for _, e := range auditOf(t, state, "") {
			kinds += " " + e.Kind
		}
		return strings.Contains(kinds, "session_end")
	})
	if others := strings.ReplaceAll(kinds, " checkpoint", ""); others == kinds || !strings.Contains(others, "daemon session_start denial session_end") { // one checkpoint a minute
		t.Error(kinds)
	}
	if own, recorded := first.reported()[0].Removed, auditOf(t, state, "session_start")[0].Removed; !slices.Contains(own, "AWS_REGION") || !slices.Equal(own, recorded) {
		t.Errorf("%q were removed from its environment, and %q are recorded", own, recorded)
	}
	j := newJob(t, nobodyUID, work, `while :; do read x <OUTSIDE; sleep 0.01; done 2>/dev/null`).start()
	eventually(t, "there are denials", func() bool { return len(auditOf(t, state, "denial")) > 1 })
	s.stop(syscall.SIGKILL)
	verified(t, state)
	s = serve(t, state)
	_ = j.Process.Kill()
	eventually(t, "both sessions have ended", func() bool { return len(auditOf(t, state, "session_end")) == 2 })
	s.stop(syscall.SIGTERM)
	out := verified(t, state)
	if !strings.Contains(out, "sound:") || !strings.Contains(out, "of an unknown number") {
		t.Error(out)
	}
	list := auditOf(t, state, "")
	last := list[len(list)-2]
	if end := list[len(list)-1]; end.Extra["what"] != "closed" || last.Extra["what"] != "toolguardd stopped" {
		t.Errorf("%+v %+v", last, end)
	}
}
