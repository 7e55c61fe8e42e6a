//go:build linux

package daemon

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/nettest"
)

// The addresses that the tricks of ../net/testdata/attacks.py use.
const (
	webIP, otherIP, dataIP = "151.101.1.1", "151.101.1.2", "151.101.1.32"
	nameIP                 = "151.101.1.53"
	metadataIP, privateIP  = "169.254.169.254", "192.168.77.7"
)

// tricky is the policy for the tricks.
var tricky = netPolicy(
	`host = "web.test"`, `host = "second.test"
scheme = "http"
path_prefix = "/open"
methods = ["GET"]`, `host = "*.wild.test"`, `host = "data.test"
port = 5432`, `host = "data.test"
port = 9999
protocol = "udp"`, `host = "private.test"`, `host = "metadata.test"`, `host = "loopback.test"`)

// trick is a trick with its output without toolguard and under it, and the event of its denial.
type trick struct{ name, free, want, target, reason string }

var tricks = []trick{
	{"another_host", "200", "403", "http://other.test:80/", "host_not_listed"},
	{"another_server_name", "^TLSv1", "alert", "https://other.test:443", "host_not_listed"},
	{"no_server_name", "^TLSv1", "alert", "https://" + webIP + ":443", "host_mismatch"},
	{"direct_ip", "200", "403", "http://" + otherIP + ":80/", "host_not_listed"},
	{"direct_ip_as_allowed", "200", "403", "http://web.test:80/", "host_mismatch"},
	{"metadata", "200", "403", "http://" + metadataIP + ":80/", "host_not_listed"},
	{"private_as_allowed", "200", "403", "http://web.test:80/", "host_mismatch"},
	{"raw_ip", "reached", "EACCES", "tcp://" + otherIP + ":7001", "host_not_listed"},
	{"mapped", "reached", "EACCES", "tcp://" + otherIP + ":7002", "host_not_listed"},
	{"mapped_web", "200", "403", "http://web.test:80/", "host_mismatch"},
	{"unspec_reconnect", "reached", "EACCES", "tcp://" + otherIP + ":7003", "host_not_listed"},
	{"fast_open", "reached", "EACCES", "tcp://" + otherIP + ":7004", "host_not_listed"},
	{"mptcp", "reached|EPROTONOSUPPORT", "EACCES|EPERM", "", ""},
	{"udp_granted", "reached", "reached", "", ""},
	{"connected_then_sendto", "sent 1", "EACCES", "udp://" + otherIP + ":9001", "host_not_listed"},
	{"send_many", "sent 2", "sent 1", "udp://" + otherIP + ":9002", "host_not_listed"},
	{"quic", "reached", "EACCES", "udp://" + webIP + ":443", "host_not_listed"},
	{"quic_connected", "reached", "EPERM", "udp://" + webIP + ":4433", "host_not_listed"},
	{"netlink_audit", "made", "EACCES|EPERM", "", ""},
	{"vsock", "made|EAFNOSUPPORT", "EACCES|EPERM", "", ""},
	{"sctp", "made|EPROTONOSUPPORT", "EACCES|EPERM", "", ""},
	{"io_uring", "made|EPERM|ENOSYS", "EACCES|EPERM|ENOSYS", "", ""},
	{"dns_denied", "code 0, 1 answers", "code 3, 0 answers", "dns://other.test", "dns_denied"},
	{"dns_by_another_server", "ECONNREFUSED|timed out", "code 3, 0 answers", "dns://other.test", "dns_denied"},
	{"tunnel_elsewhere", "code 3", "code 3", "dns://secret.second-zone.test", "dns_denied"},
	{"name_of_private", privateIP, "unresolved", "tcp://" + privateIP + ":443", "private_address"},
	{"name_of_metadata", metadataIP, "unresolved", "tcp://" + metadataIP + ":443", "private_address"},
	{"name_of_loopback", "127.0.0.1", "unresolved", "tcp://127.0.0.1:443", "private_address"},
	{"path_granted", "^200$", "^200$", "", ""},
	{"path_denied", "200", "403", "http://second.test:80/shut", "host_not_listed"},
	{"path_percent_slash", "200", "403", "http://second.test:80/open%2f..%2fshut", "host_not_listed"},
	{"method_denied", "200", "403", "http://second.test:80/open/a", "host_not_listed"},
	{"pipelined", "200 200", "200 403", "http://second.test:80/shut/pipelined", "host_not_listed"},
	{"absolute_form", "200", "403", "http://other.test:80/", "host_not_listed"},
	{"host_with_user", "200|400", "400", "http://" + webIP + ":80", "host_mismatch"},
	{"name_decimal", "reached", "EACCES", "tcp://" + otherIP + ":7008", "host_not_listed"},
}

// The tricks that fail in root's sessions also fail for an ordinary user, whose network rules toolguardd enforces.
func TestNetworkTricks(t *testing.T) {
	share(t)
	i := newInternet(t, webIP, metadataIP, privateIP)
	for name, addr := range map[string]string{
		"web.test": webIP, "second.test": webIP, "x.wild.test": webIP, "other.test": otherIP, "data.test": dataIP, "private.test": privateIP,
		"metadata.test": metadataIP, "loopback.test": "127.0.0.1",
	} {
		zone[name] = []string{addr}
	}
	text, err := os.ReadFile("../net/testdata/attacks.py")
	must(t, err)
	w := i.worker(tricky)
	must(t, os.WriteFile(filepath.Join(w.workspace, "attacks.py"), text, 0o644))
	line := "python3 attacks.py"
	for _, x := range tricks {
		line += " " + x.name
	}
	free := lines(i.unconfined(w, line))
	got := lines(w.do(line))
	w.end()
	for _, x := range tricks {
		if !regexp.MustCompile(x.free).MatchString(free[x.name]) {
			t.Errorf("%s: without toolguard %q, not %s", x.name, free[x.name], x.free)
		}
		if !regexp.MustCompile(x.want).MatchString(got[x.name]) {
			t.Errorf("%s: %q, not %s", x.name, got[x.name], x.want)
		}
		if x.target != "" {
			w.wantEvent("denial", x.target, x.reason)
		}
	}
}

// unconfined returns the output of a line without toolguard, as a worker's user in its network namespace. It starts the servers, which stay.
func (i *internet) unconfined(w *worker, line string) string {
	i.t.Helper()
	i.enter()
	defer i.leave()
	var errs []error
	for _, port := range []string{"7001", "7002", "7003", "7004", "7005", "7008"} {
		errs = append(errs, nettest.Echo("tcp", otherIP+":"+port))
	}
	for _, at := range []string{dataIP + ":9999", otherIP + ":9001", otherIP + ":9002", webIP + ":443", webIP + ":4433"} {
		errs = append(errs, nettest.Echo("udp", at))
	}
	must(i.t, errors.Join(errs...))
	names, err := net.ListenPacket("udp", nameIP+":53")
	must(i.t, err)
	i.t.Cleanup(func() { _ = names.Close() })
	go zone.ServeUDP(names)
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir, cmd.SysProcAttr = w.workspace, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	said, err := cmd.CombinedOutput()
	must(i.t, err)
	return string(said)
}

// lines returns the output of each trick.
func lines(said string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(said) {
		name, got, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		all[name] = got
	}
	return all
}
