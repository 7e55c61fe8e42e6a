package daemon

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestReadSettings(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := filepath.Join(t.TempDir(), "toolguardd.toml")
	all := DefaultSettings()
	if l, err := ReadSettings(path); err != nil || l != all {
		t.Errorf("without a file: %+v, %v", l, err)
	}
	some, kept := all, all
	some.User.Sessions, some.User.Lines = 5, 7
	kept.Audit = Audit{Size: 1 << 30, FileSize: 2 << 20, FileAge: age(90 * time.Minute), OnFull: true}
	for _, x := range []struct {
		text, wrong string
		mode        os.FileMode
		want        Settings
	}{
		{"", "", 0o644, all},
		{"[user]\nsessions = 5\nlines = 7\n", "", 0o600, some},
		{"[user]\nsesions = 5\n", ":2:1: there is no such key", 0o644, Settings{}},
		{"[user]\nsessions = \"5\"\n", ":2:12: ", 0o644, Settings{}},
		{"[user]\nbodies = 5\n", ":2:1: there is no such key", 0o644, Settings{}},
		{"[user\n", ":1:", 0o644, Settings{}},
		{"[user]\nsessions = 0\n", "at least 1", 0o644, Settings{}},
		{"[audit]\nfile_size = 2097152\nfile_age = \"1h30m\"\non_full = \"drop\"\n", "", 0o644, kept},
		{"[audit]\non_full = \"deny\"\n", "", 0o644, all},
		{"[audit]\non_full = \"block\"\n", `:2:11: toml: write "deny" or "drop"`, 0o644, Settings{}},
		{"[audit]\nfile_age = \"1s\"\n", ":2:12: toml: write a duration of a minute or more", 0o644, Settings{}},
		{"[audit]\nsize = 1000\n", "must be at least", 0o644, Settings{}},
		{"", "no other user can write", 0o666, Settings{}},
	} {
		must(t, os.WriteFile(path, []byte(x.text), 0o600))
		must(t, os.Chmod(path, x.mode))
		l, err := ReadSettings(path)
		if l != x.want || (err == nil) != (x.wrong == "") || err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%q: %+v, %v", x.text, l, err)
		}
	}
	must(t, os.Symlink(path, path+".link"))
	if _, err := ReadSettings(path + ".link"); err == nil {
		t.Error("a symlink is followed")
	}
}

// The packaged settings file and the documentation list all settings with their defaults.
func TestPackagedSettings(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	packaged := read(t, "../../packaging/toolguardd.toml")
	uncommented := regexp.MustCompile(`(?m)^# (\w+ *=)`).ReplaceAllString(packaged, "$1")
	part := regexp.MustCompile(`(?m)^    \[(user|audit)\]\n(    \w.*\n)+`)
	documented := part.FindString(read(t, "../../docs/daemon.md")) + part.FindString(read(t, "../../docs/events.md"))
	for _, text := range []string{uncommented, documented} {
		if n := len(regexp.MustCompile(`(?m)^ *\w+ *=`).FindAllString(text, -1)); n != reflect.TypeFor[Limits]().NumField()-1+reflect.TypeFor[Audit]().NumField() { // but Bodies
			t.Errorf("%d settings in %s", n, text)
		}
	}
	for _, text := range []string{packaged, uncommented, documented} {
		path := filepath.Join(t.TempDir(), "toolguardd.toml")
		must(t, os.WriteFile(path, []byte(text), 0o644))
		if got, err := ReadSettings(path); err != nil || got != DefaultSettings() {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
