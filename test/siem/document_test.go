//go:build linux

package siem

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

// TestDocument checks that docs/sinks.md has all settings of the shipper, and no others.
func TestDocument(t *testing.T) {
	t.Parallel()
	bin, err := shipper()
	must(t, err)
	page := readFile(t, "../../docs/sinks.md")
	dir := t.TempDir()
	certificates(t, dir, "siem")
	for from, to := range map[string]string{"ca.pem": "siem-ca", "siem.pem": "siem-cert", "siem.key": "siem-key"} {
		must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
	}
	for _, token := range []string{"otel-token", "splunk-token", "nats-creds"} {
		writeFile(t, filepath.Join(dir, token), "x")
	}
	check := func(text string) (string, error) {
		writeFile(t, filepath.Join(dir, "ship.toml"), text)
		cmd := exec.Command(bin, "--config", filepath.Join(dir, "ship.toml"), "check")
		cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(page, -1)
	for _, e := range examples {
		if out, err := check(e[1]); err != nil {
			t.Errorf("%s\n%s", e[1], out)
		}
	}
	if len(examples) < 7 {
		t.Errorf("only %d examples", len(examples))
	}
	source := readFile(t, "../../internal/ship/config_linux.go")
	_, rows, _ := strings.Cut(page, "\n## Settings\n")
	rows, _, _ = strings.Cut(rows, "\n## ")
	for _, m := range regexp.MustCompile("`toml:\"([a-z_]+)\"`").FindAllStringSubmatch(source, -1) {
		if m[1] != "sink" && !strings.Contains(rows, "`"+m[1]+"`") {
			t.Errorf("docs/sinks.md doesn't have %s", m[1])
		}
	}
	metrics := readFile(t, "../../internal/ship/metrics_linux.go")
	for _, m := range regexp.MustCompile(`\{"([a-z_]+)", "(counter|gauge)"`).FindAllStringSubmatch(metrics, -1) {
		if !strings.Contains(page, "`toolguard_ship_"+m[1]+"`") {
			t.Errorf("docs/sinks.md doesn't have toolguard_ship_%s", m[1])
		}
	}
	if out, err := check("[[sink]]\nname = 'x'\ntype = 'webhook'\nurl = 'https://x/'\nsubject = 'y'\n"); err == nil || !strings.Contains(out, "doesn't use subject") {
		t.Error(out)
	}
}

// TestCollectorDocument validates the page's configuration of the OpenTelemetry collector's receiver.
func TestCollectorDocument(t *testing.T) {
	_, part, _ := strings.Cut(readFile(t, "../../docs/sinks.md"), "\n### OpenTelemetry collector\n")
	yaml := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(part)
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml[1]))
	must(t, err)
	conf, err := retrieved.AsConf()
	must(t, err)
	receivers, err := conf.Sub("receivers::otlp")
	must(t, err)
	cfg := otlpreceiver.NewFactory().CreateDefaultConfig().(*otlpreceiver.Config)
	must(t, errors.Join(receivers.Unmarshal(cfg), cfg.Validate()))
	http := cfg.Protocols.HTTP.Get().ServerConfig
	if id := http.Auth.Get().Config.AuthenticatorID.String(); !conf.IsSet("extensions::"+id+"::filename") || http.TLS.Get().CertFile == "" {
		t.Errorf("%+v", http)
	}
}

// TestRsyslogDocument validates the page's configuration of rsyslogd.
func TestRsyslogDocument(t *testing.T) {
	needsRsyslog(t)
	t.Parallel()
	conf := regexp.MustCompile("(?s)```rsyslog\n(.*?)```").FindStringSubmatch(readFile(t, "../../docs/sinks.md"))
	dir := t.TempDir()
	certificates(t, dir, "cert")
	must(t, os.Rename(dir+"/cert.key", dir+"/key.pem"))
	writeFile(t, dir+"/rsyslog.conf", "global(workDirectory=\""+dir+"\")\n"+strings.ReplaceAll(conf[1], "/etc/ssl/toolguard", dir))
	if out, err := exec.Command("rsyslogd", "-N1", "-f", dir+"/rsyslog.conf").CombinedOutput(); err != nil || strings.Contains(string(out), "error") {
		t.Errorf("%v\n%s", err, out)
	}
}
