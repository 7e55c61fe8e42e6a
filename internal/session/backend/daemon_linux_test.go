package backend

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A toolguardd with another version only gets the request for its state, which identifies it.
func TestOtherProtocol(t *testing.T) {
	for answer, want := range map[string]string{
		`{"version":"0.1.0"}`:            "toolguardd has another version (0.1.0) than this toolguard",
		`{"version":"9","protocol":999}`: "toolguardd has another version (9) than this toolguard",
		`{"version":"9","protocol":2}`:   "",
	} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		childtest.Must(t, err)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(answer)) })}
		go func() { _ = srv.Serve(l) }()
		_, err = askStateOf(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", answer, err)
		}
		_ = srv.Close()
	}
}
