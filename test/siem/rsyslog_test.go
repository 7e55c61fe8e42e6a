//go:build linux

package siem

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rsyslogd starts the one of this machine with a configuration, in which DIR is the scene's folder.
func (s *scene) rsyslogd(conf string) (cmd *exec.Cmd, end func(os.Signal)) {
	s.t.Helper()
	name := filepath.Join(s.dir, "rsyslog.conf")
	text := `global(workDirectory="DIR" maxMessageSize="64k")
template(name="message" type="string" string="%msg%\n")
template(name="head" type="string" string="%app-name% %procid% %msgid% %structured-data% %syslogfacility-text% %syslogseverity-text%\n")
` + conf + `
action(type="omfile" file="DIR/got" template="message")
action(type="omfile" file="DIR/heads" template="head")
`
	must(s.t, os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", s.dir)), 0o600))
	cmd = exec.Command("rsyslogd", "-n", "-f", name, "-i", filepath.Join(s.dir, "rsyslog.pid"))
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	killed := launch(s.t, cmd)
	return cmd, func(sig os.Signal) {
		killed(sig)
		_ = os.Remove(filepath.Join(s.dir, "rsyslog.pid")) // it won't start while there's one
	}
}

func needsRsyslog(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("rsyslogd"); err != nil {
		t.Skip("needs rsyslogd")
	}
	if found, _ := filepath.Glob("/usr/lib/*/rsyslog/lmnsd_gtls.so"); found == nil {
		t.Skip("needs rsyslog-gnutls")
	}
}

// withRestarts records events while a receiver is killed and restarted.
func (s *scene) withRestarts(start func() (cmd *exec.Cmd, end func(os.Signal))) {
	s.t.Helper()
	cmd, end := start()
	for i := range 4 {
		s.record(50)
		s.delivered()
		if i == 2 {
			s.stopReading(cmd)
		}
		s.record(50)
		switch i {
		case 1:
			time.Sleep(20 * time.Millisecond) // within a batch, as it may be
		case 2:
			s.delivered() // to its kernel
		}
		end(os.Kill)
		s.record(10)
		cmd, end = start()
	}
	s.delivered()
	s.arrived(fileLines(filepath.Join(s.dir, "got")))
}

// stopReading stops a receiver.
func (s *scene) stopReading(cmd *exec.Cmd) {
	s.t.Helper()
	must(s.t, cmd.Process.Signal(syscall.SIGSTOP))
	s.wait("it's stopped", func() bool {
		text := readFile(s.t, fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		_, state, _ := strings.Cut(text, ") ")
		return strings.HasPrefix(state, "T")
	})
}

// TestSyslogTCP checks that messages that a killed rsyslogd has lost are sent again.
func TestSyslogTCP(t *testing.T) {
	needsRsyslog(t)
	t.Parallel()
	port := freePort(t)
	s := newScene(t, fmt.Sprintf("[[sink]]\nname = 'syslog'\ntype = 'syslog'\nurl = 'tcp://127.0.0.1:%d'\nmax_record = 65536\n", port))
	_, end := s.start()
	conf := fmt.Sprintf(`module(load="imtcp")
input(type="imtcp" port="%d" address="127.0.0.1")`, port)
	s.withRestarts(func() (*exec.Cmd, func(os.Signal)) { return s.rsyslogd(conf) })
	end(os.Kill) // and the shipper
	s.record(20)
	s.start()
	s.delivered()
	s.arrived(fileLines(filepath.Join(s.dir, "got")))
	chain, _, _ := strings.Cut(strings.SplitAfter(s.lines()[0], `"uid":"`)[1], "-")
	head := regexp.MustCompile(`(?m)^toolguard ` + chain + ` denial \[meta sequenceId="\d+"\] (log)?audit warning$`)
	if heads := readFile(t, filepath.Join(s.dir, "heads")); !head.MatchString(heads) {
		t.Errorf("%.300s", heads)
	}
}

// TestSyslogTLS checks the same over TLS with certificates of both sides. A shipper without one loses nothing, and logs why.
func TestSyslogTLS(t *testing.T) {
	needsRsyslog(t)
	t.Parallel()
	port := freePort(t)
	settings := fmt.Sprintf("[[sink]]\nname = 'syslog'\ntype = 'syslog'\nurl = 'tls://127.0.0.1:%d'\nmax_record = 65536\nca_file = 'DIR/ca.pem'\nserver_name = 'collector'\n", port)
	s := newScene(t, settings)
	certificates(t, s.dir, "collector", "shipper")
	conf := fmt.Sprintf(`global(DefaultNetstreamDriver="gtls" DefaultNetstreamDriverCAFile="DIR/ca.pem"
	DefaultNetstreamDriverCertFile="DIR/collector.pem" DefaultNetstreamDriverKeyFile="DIR/collector.key")
module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.AuthMode="x509/name" PermittedPeer=["shipper"])
input(type="imtcp" port="%d" address="127.0.0.1")`, port)
	s.record(10)
	_, stop := s.rsyslogd(conf)
	_, end := s.start()
	s.wait("the shipper says that it isn't let in", func() bool {
		return strings.Contains(s.log.String(), "tls: ") || strings.Contains(s.log.String(), "has closed the connection") || strings.Contains(s.log.String(), "reset")
	})
	end(syscall.SIGTERM)
	if got := fileLines(filepath.Join(s.dir, "got"))(); len(got) > 1 {
		t.Fatalf("a shipper without a certificate was let in: %d lines", len(got))
	}
	text, err := os.ReadFile(s.config)
	if err == nil {
		err = os.WriteFile(s.config, fmt.Appendf(text, "cert_file = '%s/shipper.pem'\nkey_file = '%[1]s/shipper.key'\n", s.dir), 0o600)
	}
	must(t, err)
	stop(syscall.SIGTERM)
	s.start()
	s.withRestarts(func() (*exec.Cmd, func(os.Signal)) { return s.rsyslogd(conf) })
}

// TestSyslogUnix uses a datagram socket, like /dev/log.
func TestSyslogUnix(t *testing.T) {
	needsRsyslog(t)
	t.Parallel()
	s := newScene(t, "[[sink]]\nname = 'syslog'\ntype = 'syslog'\nurl = 'unix://DIR/log'\nmax_record = 65536\n")
	conf := `module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="DIR/log" UseSpecialParser="off" ParseHostname="on" RateLimit.Interval="0")`
	s.record(20)
	s.start()
	s.wait("it waits for the socket", func() bool { return strings.Contains(s.log.String(), "records wait") })
	_, stop := s.rsyslogd(conf)
	s.delivered()
	s.arrived(fileLines(filepath.Join(s.dir, "got")))
	stop(syscall.SIGTERM)
	s.record(20)
	s.rsyslogd(conf)
	s.delivered()
	s.arrived(fileLines(filepath.Join(s.dir, "got")))
}

// certificates creates an authority, ca.pem, and a certificate with its key for each name.
func certificates(t *testing.T, dir string, names ...string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	write := func(name, kind string, der []byte) {
		must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	write("ca.pem", "CERTIFICATE", der)
	for i, name := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
		must(err)
		write(name+".pem", "CERTIFICATE", der)
		der, err = x509.MarshalPKCS8PrivateKey(key)
		must(err)
		write(name+".key", "PRIVATE KEY", der)
	}
}
