//go:build linux

package net

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named is the policy of the attacks.
var named = allow("web.test") + // net.1
	allow("second.test", `scheme = "http"`, `path_prefix = "/open"`, `methods = ["GET"]`) + allow("*.wild.test") + // net.2, net.3
	allow("data.test", "port = 5432") + allow("data.test", "port = 9999", `protocol = "udp"`) + // net.4, net.5
	deny("other.test") + // net.6
	allow("text.test") + allow("alias.test") + allow("alias-other.test") + allow("alias-inside.test") + allow("private.test") +
	allow("metadata.test") + allow("loopback.test") + allow("mapped.test") + allow("mixed.test") +
	allow(web6, "port = 9999", `protocol = "udp"`) +
	allow("second.test", `scheme = "http"`, "port = 8091", `path_prefix = "/open"`) + allow("second.test", `scheme = "ws"`, "port = 8091", `path_prefix = "/chat"`) +
	allow("metadata6.test") + allow(link6, "port = 9999", `protocol = "udp"`)

// attacks are tricks of testdata/attacks.py. Denials by seccomp are in the kernel's log, which can't be read from this network namespace:
// TestCalls reads them.
var attacks = []struct{ name, free, want, denial string }{
	{"another_host", "200", "403", "connect http://other.test:80/ rule_denies net.6"},
	{"another_server_name", "^TLSv1", "alert", "connect https://other.test:443 rule_denies net.6"},
	{"fronting", "200", "200", ""}, // a stated gap without tls_intercept: TestFronting
	{"no_server_name", "^TLSv1", "alert", "connect https://" + webIP + ":443 host_mismatch"},
	{"ech", "a server's hello", "alert", "connect https://" + webIP + ":443 host_mismatch"},
	{"second_hello", "alert", "alert", "connect https://" + webIP + ":443 host_mismatch"},

	{"direct_ip", "200", "403", "connect http://" + otherIP + ":80/ host_not_listed"},
	{"direct_ip_as_allowed", "200", "403", "connect http://web.test:80/ host_mismatch"},
	{"metadata", "200", "403", "connect http://" + metadataIP + ":80/ host_not_listed"},
	{"metadata_as_allowed", "200", "403", "connect http://web.test:80/ host_mismatch"},
	{"private_as_allowed", "200", "403", "connect http://web.test:80/ host_mismatch"},
	{"raw_ip", "reached", "EACCES", "connect tcp://" + otherIP + ":7001 host_not_listed"},
	{"mapped", "reached", "EACCES", "connect tcp://" + otherIP + ":7002 host_not_listed"},
	{"mapped_web", "200", "403", "connect http://web.test:80/ host_mismatch"},
	{"unspec_reconnect", "reached", "EACCES", "connect tcp://" + otherIP + ":7003 host_not_listed"},
	{"fast_open", "reached", "EACCES", "connect tcp://" + otherIP + ":7004 host_not_listed"},
	{"mptcp", "reached|EPROTONOSUPPORT", "EACCES|EPERM", ""},
	{"bind_to_device", "reached", "EACCES", "setsockopt option 25 of level 1 host_not_listed"},
	{"bind_to_device_later", "reached", "EACCES", "setsockopt option 25 of level 1 host_not_listed"},
	{"bind_to_index", "reached", "EACCES", "setsockopt option 62 of level 1 host_not_listed"},
	{"unicast_device", "reached", "EACCES", "setsockopt option 50 of level 0 host_not_listed"},
	{"bind_to_link", "reached", "EACCES", "connect udp://[" + web6 + "]:9999 host_not_listed"},
	{"on_link", "reached", "reached", ""},
	{"packet_info", "reached", "reached", ""}, // a stated gap
	{"mark", "reached", "EACCES|EPERM", ""},

	{"udp_granted", "reached", "reached", ""},
	{"connected_then_sendto", "sent 1", "EACCES", "connect udp://" + otherIP + ":9001 host_not_listed"},
	{"send_many", "sent 2", "sent 1", "connect udp://" + otherIP + ":9002 host_not_listed"},
	{"quic", "reached", "EACCES", "connect udp://" + webIP + ":443 host_not_listed"},
	{"quic_connected", "reached", "EPERM", "connect udp://" + webIP + ":4433 host_not_listed"},

	{"source_route", "sent 1", "EPERM", ""}, // newer kernels ask for CAP_NET_RAW first; internal/loader/cgroupsock.TestRoutes has the event
	{"routing_header", "sent 1", "EPERM", "connect protocol 43 to 2a04:4e42::2 host_not_listed"},

	{"raw_socket", "made", "EACCES|EPERM", ""},
	{"raw_socket6", "made", "EACCES|EPERM", ""},
	{"packet_socket", "made", "EACCES|EPERM", ""},
	{"netlink_audit", "made", "EACCES|EPERM", ""},
	{"vsock", "made|EAFNOSUPPORT", "EACCES|EPERM", ""},
	{"sctp", "made|EPROTONOSUPPORT", "EACCES|EPERM", ""},
	{"ping", "made", "EACCES|EPERM", ""},
	{"io_uring", "made|EPERM|ENOSYS", "EACCES|EPERM|ENOSYS", ""},

	{"dns_denied", "code 0, 1 answers", "code 3, 0 answers", "resolve dns://other.test rule_denies net.6"},
	{"dns_by_tcp", "code 3", "code 3, 0 answers", "resolve dns://second-secret.test dns_denied"},
	{"dns_by_another_server", "ECONNREFUSED|timed out", "code 3, 0 answers", "resolve dns://other.test rule_denies net.6"},
	{"dns_over_tls", "^TLSv1", "EACCES", "connect tcp://" + nameIP + ":853 host_not_listed"},
	{"dns_over_https", "200", "alert", "connect https://ns.test:443 host_not_listed"},
	{"tunnel_in_name", "code 0, 1", "code 3, 0", "resolve dns://" + strings.Repeat(strings.Repeat("0123456789abcdef", 3)+".", 3) + "wild.test limit net.3"},
	{"tunnel_in_labels", "code 0, 1", "code 3, 0", "resolve dns://a.b.c.d.e.f.g.h.wild.test limit net.3"},
	{"tunnel_elsewhere", "code 3", "code 3", "resolve dns://secret.second-zone.test dns_denied"},
	{"tunnel_in_txt", "code 0, 1", "code 0, 0", ""},
	{"https_record", "code 0, 1", "code 0, 0", ""},
	{"alias", webIP, webIP, ""},
	{"alias_to_denied", otherIP, "unresolved", "resolve dns://other.test rule_denies net.6"},
	{"alias_to_private", privateIP, "unresolved", "connect tcp://" + privateIP + ":443 private_address"},
	{"name_of_private", privateIP, "unresolved", "connect tcp://" + privateIP + ":443 private_address"},
	{"name_of_metadata", metadataIP, "unresolved", "connect tcp://" + metadataIP + ":443 private_address"},
	{"name_of_metadata6", "code 0, 1", "code 0, 0", "connect tcp://[fd00:ec2::254]:443 private_address"},
	{"name_of_loopback", "127.0.0.1", "unresolved", "connect tcp://127.0.0.1:443 private_address"},
	{"name_of_mapped", "code 0, 1", "code 0, 0", "connect tcp://127.0.0.1:443 private_address"},
	{"name_of_both", "127.0.0.1," + webIP, "^" + webIP + "$", "connect tcp://127.0.0.1:443 private_address"},

	{"path_granted", "^200$", "^200$", ""},
	{"path_denied", "200", "403", "connect http://second.test:80/shut host_not_listed"},
	{"path_with_prefix", "200", "403", "connect http://second.test:80/opened host_not_listed"},
	{"path_dots", "200", "403", "connect http://second.test:80/open/../shut host_not_listed"},
	{"path_percent_dots", "200", "403", "connect http://second.test:80/open/%2e%2e/shut host_not_listed"},
	{"path_percent_slash", "200", "403", "connect http://second.test:80/open%2f..%2fshut host_not_listed"},
	{"path_backslash", "200", "400", "host_mismatch"},
	{"path_double_slash", "200", "403", "connect http://second.test:80//open/../shut host_not_listed"},
	{"path_semicolon", "200", "403", "connect http://second.test:80/open/..;/shut host_not_listed"},
	{"path_nul", "400", "403", "connect http://second.test:80/open/%00/../../shut host_not_listed"},
	{"path_rewritten", "200", "403", "connect http://second.test:80/open/a host_not_listed"},
	{"method_override", "200", "403", "connect http://second.test:80/open/a host_not_listed"},
	{"method_denied", "200", "403", "connect http://second.test:80/open/a host_not_listed"},
	{"pipelined", "200 200", "200 403", "connect http://second.test:80/shut/pipelined host_not_listed"},
	{"kept_alive", "200 200", "200 403", "connect http://second.test:80/shut/kept-alive host_not_listed"},
	{"two_lengths", "^200 200$", "^400$", "host_mismatch"},
	{"length_and_chunks", "^200 200$", "^400$", "host_mismatch"},
	{"line_feeds_end_a_head", "^200 200$", "^400$", "host_mismatch"},
	{"bare_line_feeds", "200", "400", "host_mismatch"},
	{"two_hosts", "400", "400", "host_mismatch"},
	{"absolute_form", "200", "403", "connect http://other.test:80/ rule_denies net.6"},
	{"absolute_form_unlike_host", "200", "400", "host_mismatch"},
	{"absolute_form_of_path", "200", "403", "connect http://second.test:80/shut/absolute host_not_listed"},
	{"authority_form", "400", "400", "host_mismatch"},
	{"connect", "400|405", "403", "connect tcp://other.test:443 host_mismatch"},
	{"websocket_granted", "^101 through$", "^101 through$", ""},
	{"websocket", "^101 through$", "^403$", "connect ws://second.test:8091/open/ws host_not_listed"},
	{"h2c_upgrade", "^101 through$", "^200$", "connect http://second.test:8091/shut/tunnelled host_not_listed"},
	{"other_upgrade", "^101 through$", "^200$", "connect http://second.test:8091/shut/tunnelled host_not_listed"},
	{"h2c_at_once", "answered", "ECONNRESET", "host_not_listed"},
	{"host_with_port", "200", "200", ""},
	{"host_with_another_port", "200", "403", "connect http://web.test:8081/ host_mismatch"},
	{"host_with_dot_and_capitals", "200", "200", ""},
	{"host_with_user", "200|400", "400", "host_mismatch"},
	{"host_decimal", "200", "400", "host_mismatch"},
	{"host_hex", "200", "400", "host_mismatch"},
	{"host_octal", "200", "400|403", "host_mismatch"},
	{"host_zone", "200|400", "400", "host_mismatch"},
	{"host_nul", "400", "400", "host_mismatch"},
	{"host_space", "200|400", "400", "host_mismatch"},
	{"host_newline", "200", "^400$", "host_mismatch"},
	{"host_unicode", "200|400", "400|403", "host"},
	{"host_empty", "200|400", "400", "host_mismatch"},
	{"name_decimal", "reached", "EACCES", "connect tcp://" + otherIP + ":7008 host_not_listed"},
	{"name_hex", "reached", "EACCES", "connect tcp://" + otherIP + ":7009 host_not_listed"},
}

// Each trick works without toolguard, where it can. Under toolguard it reaches only granted destinations, and its denials are reported.
func TestAttacks(t *testing.T) {
	needsServers(t, "python3")
	p := newFixture(t, "", named)
	p.copyTricks()
	line := "/usr/bin/python3 attacks.py"
	for _, x := range attacks {
		line += " " + x.name
	}
	free, got := tricks(outcomeOf(t, p.command(line)).output), tricks(outcomeOf(t, p.confined(line)).output)
	var reported []string
	for _, e := range p.readEvents() {
		reported = append(reported, e.String())
		if u := e.Unmapped; strings.HasPrefix(u.Mechanism, "netguard:") && regexp.MustCompile("^(tcp|udp)://").MatchString(u.Target) && e.Actor.Process.Name != "python3" {
			t.Errorf("the event %q of %s is of the process %q", e, u.Mechanism, e.Actor.Process.Name)
		}
	}
	for _, x := range attacks {
		t.Run(x.name, func(t *testing.T) {
			if !regexp.MustCompile(x.free).MatchString(free[x.name]) {
				t.Errorf("without toolguard: %q, not %s", free[x.name], x.free)
			}
			if !regexp.MustCompile(x.want).MatchString(got[x.name]) {
				t.Errorf("under toolguard: %q, not %s", got[x.name], x.want)
			}
			if !slices.ContainsFunc(reported, func(e string) bool { return strings.Contains(e, x.denial) }) && x.denial != "" {
				t.Errorf("no event %q", x.denial)
			}
		})
	}
	if t.Failed() {
		t.Logf("%s", strings.Join(reported, "\n"))
	}
}

// calls are tricks that the seccomp filters deny: their results without toolguard and under it, and the reported call.
var calls = []struct{ name, free, want, reported string }{
	{"raw_socket", "made", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"raw_socket6", "made", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"packet_socket", "made", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"netlink_audit", "made", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"vsock", "made|EAFNOSUPPORT", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"sctp", "made|EPROTONOSUPPORT", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"mptcp_socket", "made|EPROTONOSUPPORT", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"ping", "made", "EACCES|EPERM", "socket socket syscall_denied seccomp.socket"},
	{"io_uring", "made|EPERM|ENOSYS", "EPERM|ENOSYS", "io_uring_setup io_uring_setup syscall_denied seccomp.io_uring"},
	{"join_group", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"join_source", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"join_any_group", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"join_any_source", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"join_group6", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"join_anycast6", "EINVAL", "EACCES", "setsockopt setsockopt host_not_listed net"}, // which the kernel allows routers only
	{"join_any_group6", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"join_any_source6", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"freebind", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"freebind6", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"transparent", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
	{"transparent6", "set", "EACCES", "setsockopt setsockopt host_not_listed net"},
}

// The seccomp filters' denials, where a part of the network is granted, are reported from the kernel's records. They are read in the
// network namespace in which these tests started, where no test server runs.
func TestCalls(t *testing.T) {
	needs(t, "python3", "nsenter")
	p := newFixture(t, "", allow(dataIP, "port = 5432"))
	came := func(cmd *exec.Cmd) *exec.Cmd {
		path, err := exec.LookPath("nsenter")
		must(t, err)
		cmd.Args = append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", os.Getppid()), "--", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = path
		return cmd
	}
	if out, _ := came(exec.Command(binary, "doctor", "--verbose")).Output(); !regexp.MustCompile(`denial events +the kernel's\s+audit\s+records\s+can`).Match(out) {
		t.Skip("needs the kernel's records of denials")
	}
	p.copyTricks()
	line := "/usr/bin/python3 attacks.py apart" // so that an event's process identifies the trick
	for _, x := range calls {
		line += " " + x.name
	}
	free, got := tricks(outcomeOf(t, came(p.command(line))).output), tricks(outcomeOf(t, came(p.confined(line))).output)
	all := p.readEvents()
	for _, x := range calls {
		t.Run(x.name, func(t *testing.T) {
			if !regexp.MustCompile(x.free).MatchString(free[x.name]) {
				t.Errorf("without toolguard: %q, not %s", free[x.name], x.free)
			}
			if !regexp.MustCompile(x.want).MatchString(got[x.name]) {
				t.Errorf("under toolguard: %q, not %s", got[x.name], x.want)
			}
			if !slices.ContainsFunc(all, func(e reported) bool {
				return e.String() == x.reported && strconv.Itoa(e.Actor.Process.PID) == got[x.name+" by"]
			}) {
				t.Errorf("no event %q of process %s among %q", x.reported, got[x.name+" by"], all)
			}
		})
	}
}

// copyTricks copies the tricks into the workspace.
func (p *fixture) copyTricks() {
	p.t.Helper()
	text, err := os.ReadFile("testdata/attacks.py")
	must(p.t, err)
	p.write("attacks.py", text)
}

// After a name's address changes, the new address is allowed only if it could have been the first one, and open connections go on.
func TestRebinding(t *testing.T) {
	needsServers(t, "python3")
	p := newFixture(t, "", allow("moving.test")+allow("moving.test", "port = 7001")+deny("other.test"))
	s := startRunning(t, p)
	look := python + `'import socket; print(*{a[4][0] for a in socket.getaddrinfo("moving.test", 80)})'`
	ask := func(to string) string {
		return python + `'import socket; c = socket.create_connection(("` + to + `", 80), 5); c.sendall(b"GET / HTTP/1.1\r\nHost: moving.test\r\nConnection: close\r\n\r\n"); print(c.recv(12)[9:])'`
	}
	s.expect(look, "^"+webIP)
	s.expect(ask(webIP), "200")
	for _, inside := range []string{privateIP, metadataIP, "127.0.0.1", "::1", "::ffff:127.0.0.1"} {
		realInternet.setName(t, "moving.test", inside)
		s.expect(look, "gaierror")
		if strings.Contains(inside, ".") && !strings.Contains(inside, ":") {
			s.expect(ask(inside), "403")
		}
	}
	for _, want := range []string{"connect tcp://" + privateIP + ":443 private_address", "connect tcp://[::1]:443 private_address", "connect http://moving.test:80/ host_mismatch"} {
		until(t, want, func() bool { return has(p.denials(), want) })
	}
	s.expect(ask(webIP), "200")
	realInternet.setName(t, "moving.test", otherIP)
	s.expect(look, "^"+otherIP)
	s.expect(ask(otherIP), "200")
	s.timed(raw+otherIP+" 7001", "^echo")
}

// All addresses of a name are reachable, through egress and directly, and no others.
func TestManyAddresses(t *testing.T) {
	needsServers(t, "python3")
	p := newFixture(t, "", allow("many.test")+allow("many.test", "port = 7001"))
	const program = `import socket
def ask(ip, host):
    c = socket.create_connection((ip, 80), 20); c.sendall(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"); return c.recv(12)[9:].decode()
all = sorted({a[4][0] for a in socket.getaddrinfo("many.test", 80)})
print(*all, *[ask(ip, b"many.test") for ip in all], ask("` + dataIP + `", b"many.test"), ask(all[0], b"web.test"), end=" ")
for ip in all + ["` + dataIP + `"]:
    try: socket.create_connection((ip, 7001), 20); print("connected", end=" ")
    except OSError as e: print(type(e).__name__, end=" ")
print()
`
	p.write("many.py", []byte(program))
	addrs := webIP + " " + otherIP
	if got := outcomeOf(t, p.command("/usr/bin/python3 many.py")).output; got != addrs+" 200 200 200 200 ConnectionRefusedError connected ConnectionRefusedError \n" {
		t.Errorf("without toolguard: %q", got)
	}
	if got := outcomeOf(t, p.confined("/usr/bin/python3 many.py")).output; got != addrs+" 200 200 403 403 ConnectionRefusedError connected PermissionError \n" {
		t.Errorf("%q", got)
	}
	all := p.denials()
	for _, want := range []string{
		"connect http://many.test:80/ host_mismatch", "connect http://web.test:80/ host_not_listed", "connect tcp://" + dataIP + ":7001 host_not_listed",
	} {
		if !has(all, want) {
			t.Errorf("no event %q among %q", want, all)
		}
	}
}

// A name's address is permitted while the answer is valid, and a connection until it ends.
func TestAnswerEnds(t *testing.T) {
	needsServers(t, "python3")
	t.Parallel() // slow
	p := newFixture(t, "", allow("brief.test", "port = 7009"))
	got := outcomeOf(t, p.confined(python+`'import socket,time
conn = socket.create_connection(("brief.test", 7009), 20); at = conn.getpeername(); conn.recv(5)
began = time.monotonic()
while time.monotonic() < began + 240:
    try: socket.create_connection(at, 20).close()
    except PermissionError: break
    time.sleep(1)
else: print("it never ends")
conn.sendall(b"goes on"); conn.shutdown(socket.SHUT_WR); print(conn.makefile().read())
socket.create_connection(("brief.test", 7009), 20); print("again")'`))
	if got.output != otherIP+":7009 goes on\nagain\n" {
		t.Errorf("%q", got.output)
	}
	if all, want := p.denials(), "connect tcp://"+otherIP+":7009 host_not_listed"; !has(all, want) {
		t.Errorf("no event %q among %q", want, all)
	}
}

// Where egress intercepts TLS, another server's name within it is denied.
func TestFronting(t *testing.T) {
	needsServers(t, "curl")
	p := newFixture(t, "tls_intercept = true", allow("web.test", `scheme = "https"`, `path_prefix = "/"`)+deny("other.test"))
	line := "curl -sS -H 'Host: other.test' "
	for _, version := range []string{"--http1.1", "--http2"} {
		if got := outcomeOf(t, p.command(line+version+" https://web.test/")); !strings.HasPrefix(got.output, "real GET https://other.test/") {
			t.Errorf("without toolguard: %q", got.output)
		}
		if got := outcomeOf(t, p.confined("curl -sS https://web.test/; "+line+version+" https://web.test/")); !regexp.MustCompile(`(?s)^real GET https://web.test/.*"host_mismatch"`).MatchString(got.output) {
			t.Errorf("%q", got.output)
		}
		if all := p.denials(); !slices.ContainsFunc(all, func(e reported) bool { return strings.HasSuffix(e.String(), "host_mismatch") }) {
			t.Errorf("events %q", all)
		}
	}
}

// tricks returns the output of each trick.
func tricks(output string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(output) {
		name, got, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		all[name] = got
	}
	return all
}
