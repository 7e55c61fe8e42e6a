//go:build linux

package siem

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestKilled kills a shipper a hundred times while events are recorded, and checks that all are delivered.
func TestKilled(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var kept []string
	collect := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was killed within it
		}
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}))
	t.Cleanup(collect.Close)
	s := newScene(t, "[[sink]]\nname = 'hook'\ntype = 'webhook'\nurl = '"+collect.URL+"'\nbatch = 5\n[[sink]]\nname = 'file'\ntype = 'file'\npath = 'DIR/out'\nbatch = 5\n")
	for range 100 {
		_, end := s.start()
		for range 5 {
			s.record(5)
		}
		time.Sleep(rand.N(100 * time.Millisecond))
		end(os.Kill)
	}
	cmd, _ := s.start()
	s.delivered()
	if n := childtest.Filters(t, cmd.Process.Pid); n != 2 {
		t.Errorf("it has loaded %d of its two filters", n)
	}
	s.arrived(func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), kept...)
	})
	s.arrived(fileLines(s.dir + "/out"))
}
