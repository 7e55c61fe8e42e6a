package ship

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestSettings: what can't be meant is said, with its place, before anything is sent anywhere.
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
		"":                                    "it has no [[sink]]",
		"[[sinks]]\n":                         "x.toml:1:3: there is no such key",
		"[[sink]]\nname = 1":                  "x.toml:2:8:",
		"[[sink]]\ntype = 'file'\npath = 'x'": "give it a name of its own",
		"[[sink]]\nname = 'A/B'\ntype = 'file'\npath = 'x'":                                                      "give it a name of its own",
		strings.Repeat("[[sink]]\nname = 'a'\ntype = 'stdout'\n", 2):                                             "sink 2: give it a name of its own",
		"[[sink]]\nname = 'a'\ntype = 'kafka'":                                                                   `sink a: "kafka" is no type`,
		"[[sink]]\nname = 'a'\ntype = 'stdout'\nformat = 'cef'":                                                  "unknown event format",
		"[[sink]]\nname = 'a'\ntype = 'file'":                                                                    "say its path",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\npath = 'x'":                                                      "has no use for path",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\nmax_record = 100":                                                "max_record 2048",
		"[[sink]]\nname = 'a'\ntype = 'stdout'\ntimeout = '1ms'":                                                 "write a duration",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'udp://x'":                                                 "must begin with one of unix://, tcp://, tls://",
		"[[sink]]\nname = 'a'\ntype = 'nats'\nurl = 'nats://10.0.0.1'\ncreds_file = '/x'":                        "use tls://",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'tls://x'\nkey_file = '/x'":                                "cert_file and key_file go together",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'tcp://x'\nca_file = '/x'":                                 "did you mean tls://",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'tcp://x'\ncert_file = '/x'\nkey_file = '/x'":              "did you mean tls://",
		"[[sink]]\nname = 'a'\ntype = 'syslog'\nurl = 'unix:///x'\nserver_name = 'x'":                            "nothing is encrypted",
		hook + "url = 'http://127.0.0.1/'\nca_file = 'DIR/token'":                                                "did you mean https://",
		hook + "url = 'https://me:canary@x/'":                                                                    "has a user or a query",
		hook + "url = 'https://x/?token=canary'":                                                                 "has a user or a query",
		hook + "url = 'http://x/'\ntoken_file = 'DIR/token'":                                                     "use https://",
		hook + "url = 'https://x/'\ntoken_file = 'token'":                                                        "no absolute path",
		hook + "url = 'https://x/'\ntoken_file = 'DIR/open'":                                                     "chmod o=",
		hook + "url = 'https://x/'\ntoken_file = 'DIR/empty'":                                                    "must have one line",
		hook + "url = 'https://x/'\nca_file = 'DIR/token'":                                                       "there's no certificate in",
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
				t.Errorf("a secret is told: %s", got)
			}
		} else if want != "" {
			t.Errorf("%q: not %q", text, want)
		}
	}
}
