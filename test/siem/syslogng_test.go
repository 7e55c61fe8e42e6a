//go:build linux

package siem

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// syslogNGFiles is where scripts/setup has unpacked syslog-ng, which conflicts with rsyslog's package.
const syslogNGFiles = "/var/cache/toolguard-test/syslog-ng-core/usr"

// syslogNG starts it with a configuration.
func (s *scene) syslogNG(conf string) (cmd *exec.Cmd, end func(os.Signal)) {
	s.t.Helper()
	name := filepath.Join(s.dir, "syslog-ng.conf")
	writeFile(s.t, name, "@version: 3.38\n"+conf)
	modules, err := filepath.Glob(syslogNGFiles + "/lib/syslog-ng/3.*")
	if err != nil || len(modules) != 1 {
		s.t.Fatal(modules, err)
	}
	cmd = exec.Command(syslogNGFiles+"/sbin/syslog-ng", "--foreground", "--no-caps", "--cfgfile", name, "--module-path", modules[0],
		"--persist-file", s.dir+"/syslog-ng.persist", "--control", s.dir+"/syslog-ng.ctl", "--pidfile", s.dir+"/syslog-ng.pid")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+syslogNGFiles+"/lib/syslog-ng")
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	return cmd, launch(s.t, cmd)
}

// TestSyslogNG checks, with the configuration of docs/sinks.md, over TLS and TCP, that messages that a killed syslog-ng has lost
// are sent again.
func TestSyslogNG(t *testing.T) {
	if _, err := os.Stat(syslogNGFiles); err != nil {
		t.Skip("needs syslog-ng: scripts/setup test")
	}
	t.Parallel()
	page := regexp.MustCompile("(?s)```syslog-ng\n(.*?)```").FindStringSubmatch(readFile(t, "../../docs/sinks.md"))[1]
	for transport, certs := range map[string]string{"tls": "ca_file = 'DIR/ca.pem'\ncert_file = 'DIR/shipper.pem'\nkey_file = 'DIR/shipper.key'\n", "tcp": ""} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			port := strconv.Itoa(freePort(t))
			s := newScene(t, "[[sink]]\nname = 'syslog'\ntype = 'syslog'\nurl = '"+transport+"://127.0.0.1:"+port+"'\nmax_record = 65536\n"+certs)
			certificates(t, s.dir, "cert", "shipper")
			must(t, os.Rename(s.dir+"/cert.key", s.dir+"/key.pem"))
			conf := strings.NewReplacer("/etc/ssl/toolguard", s.dir, "/var/log/toolguard.jsonl", s.dir+"/got", `"tls"`, `"`+transport+`"`, "6514", port).Replace(page)
			if transport == "tcp" {
				conf = regexp.MustCompile(`(?s) tls\(.*?\)\)\);`).ReplaceAllString(conf, ");")
			}
			s.start()
			s.withRestarts(func() (*exec.Cmd, func(os.Signal)) { return s.syslogNG(conf) })
		})
	}
}
