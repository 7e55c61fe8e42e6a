//go:build linux

package net

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is one [[access.net]].
func rule(lines ...string) string { return "[[access.net]]\n" + strings.Join(lines, "\n") + "\n" }

func allow(host string, more ...string) string {
	return rule(append([]string{`host = "` + host + `"`, "allow = true"}, more...)...)
}

func deny(host string, more ...string) string {
	return rule(append([]string{`host = "` + host + `"`}, more...)...)
}

// own grants the session's own servers on loopback.
var own = rule(`host = "localhost"`, "listen = true", "allow = true")

// serveOwn runs a server on an address and port, and a client that connects to it by another address.
func serveOwn(family, at, port, by string) string {
	return python + `'import socket
s = socket.socket(socket.` + family + `); s.bind(("` + at + `", ` + port + `)); s.listen()
c = socket.create_connection(("` + by + `", s.getsockname()[1]), 5); a, _ = s.accept()
c.sendall(b"own"); print(a.recv(3).decode())'`
}

const (
	python = "/usr/bin/python3 -c "
	raw    = python + `'import socket,sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
peer = c.getpeername()[:2]; c.sendall(b"ping"); c.shutdown(socket.SHUT_WR)
print(c.makefile().read(), peer)' `
	ask = python + `'import socket,struct,sys
q = b"\0\1\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l.encode() for l in sys.argv[1].split(".")) + b"\0\0\1\0\1"
c = socket.create_connection(("` + nameIP + `", 53), 5); c.sendall(struct.pack(">H", len(q)) + q); f = c.makefile("rb")
r = f.read(struct.unpack(">H", f.read(2))[0]); print(socket.inet_ntoa(r[len(q)+12:][:4]) if r[7] else "")' `
)

// Network operations of programs: all succeed without toolguard, and under toolguard those that the policy grants.
var rows = []struct {
	name    string
	needs   string
	access  string // of [access]
	rules   string
	line    string // for the shell
	free    string // a pattern for the output without toolguard
	want    string // under toolguard; "": the same
	denials []string
}{
	{
		name: "a name denied by a rule", needs: "curl", access: `default = { net = "allow", fs = "deny" }`, rules: deny("denied.test"),
		line: "curl -sS http://allowed.test/; curl -sS -m 20 http://denied.test/", free: "(?s)hello GET http://allowed.*hello GET http://denied",
		want:    "(?s)^hello GET http://allowed.test/.*Could not resolve host: denied.test",
		denials: []string{"resolve dns://denied.test rule_denies net.1"},
	},
	{
		name: "https by IPv6", needs: "curl", rules: allow("allowed.test"),
		line: "curl -6 -sS https://allowed.test/a", free: "^hello GET https://allowed.test/a by HTTP/2\n$",
	},
	{
		name: "an allowed name at another's address", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS --resolve allowed.test:443:" + deniedIP + " https://allowed.test/", free: "hello GET https://allowed.test/", want: "alert",
		denials: []string{"connect https://allowed.test:443 host_mismatch"},
	},
	{
		// Before the session resolves the name.
		name: "a database without its name", needs: "python3", rules: allow("database.test", "port = 5432"),
		line: raw + databaseIP + " 5432", free: "echo", want: "PermissionError",
		denials: []string{"connect tcp://" + databaseIP + ":5432 host_not_listed"},
	},
	{
		name: "a database by name", needs: "python3", rules: allow("database.test", "port = 5432"),
		line: raw + "database.test 5432", free: "^echo " + databaseIP + `:5432 ping \('` + databaseIP + `', 5432\)`,
	},
	{
		name: "names by TCP", needs: "python3", rules: allow("allowed.test"),
		line: ask + "allowed.test", free: "^" + allowedIP + "\n$",
	},
	{
		name: "a name that leads inside", needs: "python3", rules: allow("inside.test", "port = 5432"),
		line: raw + "inside.test 5432", free: "echo 10.9.8.7", want: "gaierror",
		denials: []string{"connect tcp://10.9.8.7:5432 private_address"},
	},
	{
		name: "a name that leads inside, which is granted", needs: "python3",
		rules: allow("inside.test", "port = 5432") + allow("10.0.0.0/8", "port = 5432"),
		line:  raw + "inside.test 5432", free: "echo 10.9.8.7",
	},
	{
		name: "a name of the hosts file", needs: "curl", rules: allow("intranet.test") + allow("machine.test", `scheme = "http"`, "port = 80"),
		line: "curl -sS http://intranet.test/ http://machine.test/", free: "^hello GET http://intranet.test/.*\nhello GET http://machine.test/",
	},
	{
		name: "a database by its name in the hosts file", needs: "python3", rules: allow("machine.test", "port = 5432"),
		line: raw + "machine.test 5432", free: "echo 127.0.0.1",
	},
	{
		name: "a name of the hosts file that isn't granted", needs: "python3", rules: allow("machine.test", "port = 5432"),
		line: raw + "intranet.test 5432", free: "echo 10.9.8.7", want: "PermissionError",
		denials: []string{"connect tcp://10.9.8.7:5432 host_not_listed"},
	},
	{name: "a test's own server", needs: "python3", rules: own, line: serveOwn("AF_INET", "127.0.0.1", "0", "127.0.0.1"), free: "^own\n$"},
	{name: "its own server on a port of its choice", needs: "python3", rules: own, line: serveOwn("AF_INET", "127.0.0.1", "8099", "localhost"), free: "^own\n$"},
	{name: "its own server by IPv6", needs: "python3", rules: own, line: serveOwn("AF_INET6", "::1", "0", "::1"), free: "^own\n$"},
	{name: "its own server on every address", needs: "python3", rules: own, line: serveOwn("AF_INET6", "::", "0", "127.0.0.1"), free: "^own\n$"},
	{
		name: "its own server on a port where names are asked for", needs: "python3", rules: own + allow("api.test", `scheme = "http"`, "port = 8098"),
		line: serveOwn("AF_INET", "127.0.0.1", "8098", "127.0.0.1"), free: "^own\n$",
	},
	{
		name: "another's server on loopback", needs: "python3", rules: own, line: raw + "127.0.0.1 5432", free: "echo 127.0.0.1", want: "PermissionError",
		denials: []string{"connect tcp://127.0.0.1:5432 host_not_listed"},
	},
	{
		name: "its own server where another waits", needs: "python3", rules: own, line: serveOwn("AF_INET", "127.0.0.1", "5432", "127.0.0.1"),
		free: "Address already in use", denials: []string{"listen tcp://127.0.0.1:5432 host_not_listed"},
	},
	{
		name: "its own server by UDP", needs: "python3", rules: own,
		line: python + `'import socket; socket.socket(type=socket.SOCK_DGRAM).bind(("127.0.0.1", 8095)); print("waits")'`,
		free: "^waits\n$", want: "PermissionError", denials: []string{"listen udp://127.0.0.1:8095 host_not_listed"},
	},
	{
		name: "its own server elsewhere", needs: "python3", rules: own, line: serveOwn("AF_INET", allowedIP, "8097", allowedIP), free: "^own\n$", want: "PermissionError",
		denials: []string{"listen tcp://" + allowedIP + ":8097 host_not_listed"},
	},
	{
		name: "its own server, which is denied", needs: "python3", rules: own + deny("127.0.0.1", "port = 8096"),
		line: serveOwn("AF_INET", "127.0.0.1", "8096", "127.0.0.1"), free: "^own\n$", want: "PermissionError|refused",
		denials: []string{"connect tcp://127.0.0.1:8096 rule_denies net.2"},
	},
	{
		name: "a path on https", needs: "curl", access: "tls_intercept = true", rules: allow("api.test", `scheme = "https"`, `path_prefix = "/v1"`),
		line: "curl -sS https://api.test/v1/a", free: "^hello GET https://api.test/v1/a by HTTP/2\n$",
	},
	{
		name: "another path on https", needs: "curl", access: "tls_intercept = true", rules: allow("api.test", `scheme = "https"`, `path_prefix = "/v1"`),
		line: "curl -sS https://api.test/v2/a", free: "hello GET https://api.test/v2/a", want: `"target": "https://api.test:443/v2/a"`,
		denials: []string{"connect https://api.test:443/v2/a host_not_listed"},
	},
	{
		name: "the session's authority can't be changed", needs: "curl", access: "tls_intercept = true",
		rules: allow("api.test", `scheme = "https"`, `path_prefix = "/v1"`),
		line:  `[ -z "$SSL_CERT_FILE" ] || { chmod 600 "$SSL_CERT_FILE"; echo x >>"$SSL_CERT_FILE"; }; curl -sS https://api.test/v1/a`, free: "^hello", want: "(?s)not permitted.*ermission denied.*hello",
	},
	{
		name: "waiting for others", needs: "python3", rules: allow("127.0.0.1", "port = 8080", "listen = true"),
		line: python + `'import socket; s = socket.socket(); s.bind(("127.0.0.1", 8080)); s.listen(); print("waits")'`, free: "^waits\n$",
	},
	{
		name: "waiting elsewhere", needs: "python3", rules: allow("127.0.0.1", "port = 8080", "listen = true"),
		line: python + `'import socket; s = socket.socket(); s.bind(("127.0.0.1", 8081)); s.listen(); print("waits")'`,
		free: "^waits\n$", want: "PermissionError", denials: []string{"listen tcp://127.0.0.1:8081 host_not_listed"},
	},
}

// The rows of one policy run in one session: the start of a session is slow, above all where the processor is emulated.
func TestRules(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, of := range rows {
		if tried[of.access+of.rules] {
			continue
		}
		tried[of.access+of.rules] = true
		s := startRunning(t, newFixture(t, of.access, of.rules))
		var known []string
		for _, x := range rows {
			if x.access+x.rules != of.access+of.rules {
				continue
			}
			known = append(known, x.denials...)
			t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
				needs(t, x.needs)
				s.write("line", []byte(x.line))
				if got := outcomeOf(t, s.command("sh line")); !regexp.MustCompile(x.free).MatchString(got.output) {
					t.Fatalf("without toolguard: %q, not %s", got.output, x.free)
				}
				want := x.want
				if want == "" {
					want = x.free
				}
				if got, _, _ := strings.Cut(s.do("sh line"), "exit "); !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("under toolguard: %q, not %s", got, want)
				}
				for _, d := range x.denials {
					until(t, d, func() bool { return has(s.denials(), d) })
				}
			})
		}
		s.end()
		for _, e := range s.denials() {
			if !slices.Contains(known, e.String()) {
				t.Errorf("%s%s: the event %q", of.access, of.rules, e)
			}
		}
	}
}
