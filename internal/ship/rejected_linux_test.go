package ship

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// TestRejected checks that a gap replaces a permanently rejected record and names it, and that the other records are delivered.
func TestRejected(t *testing.T) {
	r := newReceiver(t)
	rejected := func(line string) bool {
		return strings.Contains(line, `"path":"/x/13"`) || strings.Contains(line, `"path":"/x/40"`)
	}
	r.reject = rejected
	r.Start()
	token := secret(t, "canary-token")
	s := newScene(t, audit.Limits{}, Sink{Name: "hook", Type: "webhook", URL: r.URL, Token: token, MaxRecord: 4096})
	s.record(30)
	s.record(1, func(e *event.Event) { e.Target = strings.Repeat("y", 5000) })
	s.record(20)
	stop := s.start()
	s.waitDelivered()
	wait(t, "all rejections are logged", func() bool { return s.rejected() == 3 })
	stop()
	want := s.lines()
	got := r.got()
	if len(got) != len(want) {
		t.Fatalf("%d, not %d", len(got), len(want))
	}
	gaps := 0
	for i, line := range got {
		if line == want[i] {
			continue
		}
		gaps++
		gone, gap := parse(t, want[i]), parse(t, line)
		why := gap.Unmapped.Extra["why"]
		if gap.Unmapped.Kind != "gap" || gap.Metadata.Sequence != gone.Metadata.Sequence || gap.Count > 1 || !strings.Contains(why, gone.Metadata.UID) {
			t.Errorf("%s", line)
		}
		if rejected(want[i]) != strings.Contains(why, "I won't take this") || rejected(want[i]) == strings.Contains(why, "more than max_record") {
			t.Errorf("%s", line)
		}
	}
	st, err := ReadState(s.cfg.State)
	if err != nil || gaps != 3 || st.Sinks["hook"].Rejected != 3 || st.Sinks["hook"].Gaps != 3 {
		t.Errorf("%d gaps, %+v, %v", gaps, st.Sinks["hook"], err)
	}
	if strings.Contains(s.log.String()+strings.Join(got, ""), "canary-token") {
		t.Error("an echoed token is shown")
	}
}

// rejected returns the number of rejected records in the log.
func (s *scene) rejected() (sum int) {
	for _, m := range regexp.MustCompile(`rejected permanently.* records=(\d+) `).FindAllStringSubmatch(s.log.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	return sum
}

// TestRecordFails checks that a record on which the receiver always fails becomes a gap, and that one on which it fails sometimes
// doesn't.
func TestRecordFails(t *testing.T) {
	var mu sync.Mutex
	var kept []string
	n := 0
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		if n++; n%2 == 0 || bytes.Contains(body, []byte(`"path":"/x/13"`)) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		kept = append(kept, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	})
	s := newScene(t, audit.Limits{}, Sink{Name: "hook", Type: "webhook", URL: url, Batch: 8})
	s.record(30)
	s.start()
	s.waitDelivered()
	mu.Lock()
	defer mu.Unlock()
	want := s.lines()
	if len(kept) != len(want) {
		t.Fatalf("%d, not %d", len(kept), len(want))
	}
	for i := range want {
		if poison := strings.Contains(want[i], `"path":"/x/13"`); (kept[i] == want[i]) == poison {
			t.Errorf("%s", kept[i])
		}
	}
}

// TestRejectsAll checks that nothing is skipped for a receiver that rejects everything.
func TestRejectsAll(t *testing.T) {
	r := newReceiver(t)
	mended, takes := false, false
	var first string
	r.reject = func(line string) bool {
		takes = takes || mended && line == first // not amid a search for the one to blame, which then were those asked about before
		return !takes
	}
	r.Start()
	s := newScene(t, audit.Limits{}, Sink{Name: "hook", Type: "webhook", URL: r.URL})
	s.record(5)
	first = s.lines()[0]
	s.start()
	var st State
	wait(t, "it has tried", func() bool { st, _ = ReadState(s.cfg.State); return st.Sinks["hook"].Retries > 2 })
	if h := st.Sinks["hook"]; h.Cursor.Sequence != 0 || h.Rejected != 0 || !strings.Contains(h.Failing, "neither a record") {
		t.Errorf("%+v", h)
	}
	r.mu.Lock()
	mended = true
	r.mu.Unlock()
	s.waitDelivered()
	checkArrived(t, r.got(), s.lines())
}
