package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestDaemonSetting(t *testing.T) {
	childtest.NeedsRoot(t, "the file must be root's")
	for _, x := range []struct {
		text  string
		mode  os.FileMode
		value string
		err   string
	}{
		{"", 0o644, "", ""},
		{"# daemon = \"require\"\n", 0o644, "", ""},
		{"daemon = \"require\"\n", 0o644, "require", ""},
		{"\n  daemon=\"auto\" # for now\n", 0o600, "auto", ""},
		{"daemon = \"require\"\n", 0o664, "", "no other user can write"},
		{"daemon = require\n", 0o644, "", ":1: write daemon"},
		{"daemon = \"none\"\n", 0o644, "", ":1: write daemon"},
		{"deamon = \"require\"\n", 0o644, "", "unknown key \"deamon\": there is only the key daemon"},
		{"\n[user]\n", 0o644, "", ":2: unknown key \"[user]\""},
		{"daemon = \"auto\"\ndaemon = \"require\"\n", 0o644, "", ":2: daemon is there twice"},
		{strings.Repeat("#\n", 3000), 0o644, "", "more than"},
	} {
		file := filepath.Join(t.TempDir(), "exec.toml")
		childtest.Must(t, os.WriteFile(file, []byte(x.text), 0o600))
		childtest.Must(t, os.Chmod(file, x.mode))
		value, where, err := daemonSetting(file)
		if value != x.value || (where != "") != (value != "") || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%q: %q, %q, %v", x.text, value, where, err)
		}
	}
	if value, _, err := daemonSetting(filepath.Join(t.TempDir(), "exec.toml")); value != "" || err != nil {
		t.Errorf("no file: %q, %v", value, err)
	}
	link := filepath.Join(t.TempDir(), "exec.toml")
	childtest.Must(t, os.Symlink("/dev/null", link))
	if _, _, err := daemonSetting(link); err == nil {
		t.Error("a symlink is followed")
	}
}
