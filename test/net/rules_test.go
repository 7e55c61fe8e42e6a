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
	datagram = python + `'import socket,sys
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.settimeout(5)
c.sendto(b"ping", (sys.argv[1], int(sys.argv[2]))); print(c.recvfrom(99))' `
)

// What programs do with the network: each does it without toolguard, and under toolguard what the policy lets it.
var rows = []struct {
	name    string
	needs   string
	access  string // of [access]
	rules   string
	line    string // for the shell
	free    string // what it says without toolguard, as a pattern
	want    string // and under toolguard; "": the same
	denials []string
}{
	{
		name: "http by name", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS http://allowed.test/a", free: "^hello GET http://allowed.test/a by HTTP/1\n$",
	},
	{
		name: "http to another name", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS http://denied.test/a", free: "hello GET http://denied.test/a", want: "Could not resolve host",
		denials: []string{"resolve dns://denied.test dns_denied"},
	},
	{
		name: "another name at an address that is known", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS -H 'Host: denied.test' http://allowed.test/a", free: "hello GET http://denied.test/a", want: `"reason": "host_not_listed"`,
		denials: []string{"connect http://denied.test:80/a host_not_listed"},
	},
	{
		name: "a name denied by a rule", needs: "curl", access: `default = { net = "allow", fs = "deny" }`, rules: deny("denied.test"),
		line: "curl -sS http://allowed.test/; curl -sS -m 20 http://denied.test/", free: "(?s)hello GET http://allowed.*hello GET http://denied",
		want:    "(?s)^hello GET http://allowed.test/.*Could not resolve host: denied.test",
		denials: []string{"resolve dns://denied.test rule_denies net.1"},
	},
	{
		name: "https by name, HTTP/2", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS https://allowed.test/a", free: "^hello GET https://allowed.test/a by HTTP/2\n$",
	},
	{
		name: "https by IPv6", needs: "curl", rules: allow("allowed.test"),
		line: "curl -6 -sS https://allowed.test/a", free: "^hello GET https://allowed.test/a by HTTP/2\n$",
	},
	{
		name: "another server's name", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS --connect-to denied.test:443:allowed.test:443 https://denied.test/", free: "hello GET https://denied.test/", want: "alert",
		denials: []string{"connect https://denied.test:443 host_not_listed"},
	},
	{
		name: "an allowed name at another's address", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS --resolve allowed.test:443:" + deniedIP + " https://allowed.test/", free: "hello GET https://allowed.test/", want: "alert",
		denials: []string{"connect https://allowed.test:443 host_mismatch"},
	},
	{
		name: "an address", needs: "curl", rules: allow("allowed.test"),
		line: "curl -sS http://" + deniedIP + "/", free: "hello GET", want: `"target": "http://` + deniedIP + `:80/"`,
		denials: []string{"connect http://" + deniedIP + ":80/ host_not_listed"},
	},
	{
		name: "an address and port that nothing is said about", needs: "python3", rules: allow("allowed.test"),
		line: raw + deniedIP + " 5432", free: "echo " + deniedIP, want: "PermissionError",
		denials: []string{"connect tcp://" + deniedIP + ":5432 host_not_listed"},
	},
	{
		name: "a range of addresses", needs: "python3", rules: allow("93.184.216.0/24", "port = 5432"),
		line: raw + rangeIP + " 5432", free: "^echo " + rangeIP + `:5432 ping \('` + rangeIP + `', 5432\)`,
	},
	{
		name: "beside a range of addresses", needs: "python3", rules: allow("93.184.216.0/24", "port = 5432"),
		line: raw + databaseIP + " 5432", free: "echo", want: "PermissionError",
		denials: []string{"connect tcp://" + databaseIP + ":5432 host_not_listed"},
	},
	{
		name: "out of a range of addresses", needs: "python3", rules: allow("93.184.216.0/24", "port = 5432") + deny(rangeIP, "port = 5432"),
		line: raw + rangeIP + " 5432", free: "echo", want: "PermissionError",
		denials: []string{"connect tcp://" + rangeIP + ":5432 rule_denies net.2"},
	},
	{
		// Before the name is asked for in this session.
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
		name: "another name by TCP", needs: "python3", rules: allow("allowed.test"),
		line: ask + "api.test", free: "^" + allowedIP + "\n$", want: "^\n$", denials: []string{"resolve dns://api.test dns_denied"},
	},
	{
		name: "another port of a name", needs: "python3", rules: allow("database.test", "port = 9"),
		line: raw + "database.test 5432", free: "echo", want: "PermissionError",
		denials: []string{"connect tcp://" + databaseIP + ":5432 host_not_listed"},
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
		name: "UDP by name", needs: "python3", rules: allow("database.test", "port = 9999", `protocol = "udp"`),
		line: datagram + "database.test 9999", free: `^\(b'echo ping', \('` + databaseIP + `', 9999\)\)`,
	},
	{
		name: "UDP elsewhere", needs: "python3", rules: allow("database.test", "port = 9999", `protocol = "udp"`),
		line: datagram + deniedIP + " 9999", free: "echo ping", want: "PermissionError",
		denials: []string{"connect udp://" + deniedIP + ":9999 host_not_listed"},
	},
	{
		name: "a path and a method", needs: "curl", rules: allow("api.test", `scheme = "http"`, `path_prefix = "/v1"`, `methods = ["GET"]`),
		line: "curl -sS http://api.test/v1/a", free: "hello GET http://api.test/v1/a",
	},
	{
		name: "another path", needs: "curl", rules: allow("api.test", `scheme = "http"`, `path_prefix = "/v1"`, `methods = ["GET"]`),
		line: "curl -sS http://api.test/v1/a http://api.test/v2/a", free: "(?s)hello GET http://api.test/v1/a.*hello GET http://api.test/v2/a",
		want:    `(?s)^hello GET http://api.test/v1/a.*"target": "http://api.test:80/v2/a"`,
		denials: []string{"connect http://api.test:80/v2/a host_not_listed"},
	},
	{
		name: "another method", needs: "curl", rules: allow("api.test", `scheme = "http"`, `path_prefix = "/v1"`, `methods = ["GET"]`),
		line: "curl -sS -X DELETE http://api.test/v1/a", free: "hello DELETE http://api.test/v1/a", want: `"method": "DELETE"`,
		denials: []string{"connect http://api.test:80/v1/a host_not_listed"},
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

// The rows of one policy are lines of one session: to start one takes longer than all else, above all where the processor is emulated.
func TestRules(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, of := range rows {
		if tried[of.access+of.rules] {
			continue
		}
		tried[of.access+of.rules] = true
		s := startRunning(t, newPlace(t, of.access, of.rules))
		var known []string
		for _, x := range rows {
			if x.access+x.rules != of.access+of.rules {
				continue
			}
			known = append(known, x.denials...)
			t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
				needs(t, x.needs)
				s.write("line", []byte(x.line))
				if got := outcomeOf(t, s.command("sh line")); !regexp.MustCompile(x.free).MatchString(got.said) {
					t.Fatalf("without toolguard it says %q, not %s", got.said, x.free)
				}
				want := x.want
				if want == "" {
					want = x.free
				}
				if got, _, _ := strings.Cut(s.do("sh line"), "exit "); !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("under toolguard it says %q, not %s", got, want)
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
