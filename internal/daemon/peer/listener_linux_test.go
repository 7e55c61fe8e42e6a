package peer

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
)

// A user's subordinate IDs have no quota of their own.
func TestSubordinate(t *testing.T) {
	dir, me := t.TempDir(), os.Getuid()
	serve := func(subuid string) *api.Client {
		socket := filepath.Join(dir, filepath.Base(subuid)+".socket")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		childtest.Must(t, err)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }), ConnContext: ConnContext}
		t.Cleanup(func() { _ = srv.Close() })
		sessionOf := func(int, int) (uint64, error) { return 0, nil }
		go func() {
			_ = srv.Serve(&Listener{UnixListener: l, MaxConnections: func() int { return 9 }, SessionOf: sessionOf, Subuid: subuid})
		}()
		return &api.Client{Socket: socket}
	}
	for i, x := range []struct {
		text     string
		rejected bool
	}{
		{fmt.Sprintf("ann:%d:1\n", me), true},
		{fmt.Sprintf("# ours\nbob:%d:65536\nann:%d:2\n", me+1, me-1), true},
		{fmt.Sprintf("bob:%d:65536\nann:%d:1\nx:y:z\nx:%d\n", me+1, me-1, me), false},
		{fmt.Sprintf("root:%d:1\n0:%d:1\n", me, me), false},
	} {
		file := fmt.Sprintf("%s/%d", dir, i)
		childtest.Must(t, os.WriteFile(file, []byte(x.text), 0o600))
		err := serve(file).Do("GET", api.Status, nil, &struct{}{})
		if x.rejected {
			want := fmt.Sprintf("user %d is a subordinate user of ann", me)
			if r := (*api.StatusError)(nil); !errors.As(err, &r) || r.Status != 503 || !strings.Contains(r.Why, want) {
				t.Errorf("%q: %v, want %q", x.text, err, want)
			}
		} else if err != nil {
			t.Errorf("%q: %v", x.text, err)
		}
	}
	if err := serve(dir+"/none").Do("GET", api.Status, nil, &struct{}{}); err != nil {
		t.Errorf("without such a file: %v", err)
	}
}
