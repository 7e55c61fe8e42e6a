package ship

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestSettings checks that invalid settings are reported with their position.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for name, mode := range map[string]os.FileMode{"token": 0o600, "open": 0o644, "empty": 0o600} {
		text := "canary"
		if name == "empty" {
			text = "\n"
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte(text), mode), os.Chmod(file, mode)); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	const hook = "[[sink]]\nname = 'a'\ntype = 'webhook'\n"
	for text, want := range map[string]string{
		"":                                    "there is no [[sink]]",
		"[[sinks]]\n":                         "x.toml:1:3: unknown key",
		"[[sink]]\nname = 1":                  "x.toml:2:8:",
		"[[sink]]\ntype = 'file'\npath = 'x'": "the name must be unique",
		"[[sink]]\nname = 'A/B'\ntype = 'file'\npath = 'x'":                                                      "the name must be unique",
		strings.Repeat("[[sink]]\nname = 'a'\ntype = 'stdout'\n", 2):                                             "sink 2: the name must be unique",
		"[[sink]]\nname = 'a'\ntype = 'kafka'":                                                                   `sink a: unknown type "kafka"`,
		"[[sink]]\nname = 'a'\ntype = 'stdout'\nformat = 'cef'":                                                  "unknown event format",
		"[[sink]]\nname = 'a'\ntype = 'file'":                                                                    "path is missing",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\npath = 'x'":                                                      "doesn't use path",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\nmax_record = 100":                                                "max_record at least 2048",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\ntimeout = '1ms'":                                                 "write a duration",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'udp://x'":                                                 "must begin with one of unix://, tcp://, tls://",
		"[[sink]]\nname = 'a'\ntype = 'nats'\nurl = 'nats://10.0.0.1'\ncreds_file = '/x'":                        "use tls://",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'tls://x'\nkey_file = '/x'":                                "cert_file and key_file need each other",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'tcp://x'\nca_file = '/x'":                                 "did you mean tls://",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'tcp://x'\ncert_file = '/x'\nkey_file = '/x'":              "did you mean tls://",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'unix:///x'\nserver_name = 'x'":                            "isn't encrypted",
		hook + "url = 'http://127.0.0.1/'\nca_file = 'DIR/token'":                                                "did you mean https://",
		hook + "url = 'https://me:canary@x/'":                                                                    "has a user or a query",
		hook + "url = 'https://x/?token=canary'":                                                                 "has a user or a query",
		hook + "url = 'http://x/'\ntoken_file = 'DIR/token'":                                                     "use https://",
		hook + "url = 'https://x/'\ntoken_file = 'token'":                                                        "isn't an absolute path",
		hook + "url = 'https://x/'\ntoken_file = 'DIR/open'":                                                     "chmod o=",
		hook + "url = 'https://x/'\ntoken_file = 'DIR/empty'":                                                    "must have one line",
		hook + "url = 'https://x/'\nca_file = 'DIR/token'":                                                       "has no certificate",
		hook + "url = 'https://x/'\ntoken_file = 'DIR/token'":                                                    "",
		"[[sink]]\nname = 'a'\ntype = 'nats'\nurl = 'nats://127.0.0.1,nats://localhost'\ntoken_file = '/x'":      "",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\nformat = 'text'\nbatch = 3\n[[sink]]\nname='b'\ntype = 'stdout'": "",
	} {
		name := filepath.Join(dir, "x.toml")
		childtest.Must(t, os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
		cfg, err := Read(name)
		if err == nil {
			err = Check(cfg)
		}
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("%q: %s, not %q", text, got, want)
			}
			if strings.Contains(got, "canary") {
				t.Errorf("a secret is shown: %s", got)
			}
		} else if want != "" {
			t.Errorf("%q: not %q", text, want)
		}
	}
}
