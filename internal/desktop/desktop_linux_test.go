package desktop

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// outVar is the file to which the program that shows notices copies its input.
const outVar = "TOOLGUARD_TEST_OUT"

// TestMain is also that program: a copy of this binary, in its folder.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != "notify" {
		os.Exit(m.Run())
	}
	f, err := os.Create(os.Getenv(outVar))
	if err == nil {
		_, err = io.Copy(f, os.Stdin)
	}
	if err == nil {
		err = os.Rename(f.Name(), f.Name()+".complete")
	}
	if err != nil {
		os.Exit(1)
	}
}

func TestNotices(t *testing.T) {
	self, err := os.Executable()
	childtest.Must(t, err)
	text, err := os.ReadFile(self)
	childtest.Must(t, err)
	program := filepath.Join(filepath.Dir(self), "toolguard-ship")
	childtest.Must(t, os.WriteFile(program, text, 0o755))
	defer os.Remove(program)
	show := func() string {
		out := filepath.Join(t.TempDir(), "out")
		t.Setenv(outVar, out)
		var n Notices
		for range 100 { // never waits
			n.Notify(&message.Approval{Tool: "Bash", Argv: []string{"git", "pu\x1bsh", strings.Repeat("x", 1000)}})
		}
		started := n.queue != nil
		n.Close()
		if !started {
			return ""
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if text, err := os.ReadFile(out + ".complete"); err == nil {
				return string(text)
			}
			if time.Now().After(end) {
				t.Fatal("the program doesn't end with its input")
			}
		}
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	var got Notice
	childtest.Must(t, json.NewDecoder(strings.NewReader(show())).Decode(&got))
	if !strings.HasPrefix(got.Body, `Bash: git $'pu\x1bsh' xxx`) || !strings.HasSuffix(got.Body, "…") || len(got.Body) > maxText+2 || got.Summary == "" {
		t.Errorf("%+v", got)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "") // without a session bus, nothing is started
	if text := show(); text != "" {
		t.Errorf("%q", text)
	}
}

// TestUnused starts nothing.
func TestUnused(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	var n Notices
	n.Close()
	n.Notify(&message.Approval{})
	if n.queue != nil {
		t.Error("started after its end")
	}
}
