//go:build linux

package net

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/daemontest"
	"github.com/toolguard/toolguard/internal/nettest"
)

// get is a client with Go's net/http, run by this test's own program.
func get(url string) int {
	resp, err := http.Get(url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Printf("%d %s %v\n", resp.StatusCode, body, err)
	return 0
}

const (
	authorities = "/etc/ssl/certs/ca-certificates.crt"
	urllib      = python + `'import ssl,sys,urllib.request as u,urllib.error
try: r = u.urlopen(sys.argv[1], timeout=20, context=ssl.create_default_context(cafile="` + authorities + `"))
except urllib.error.HTTPError as e: r = e
print(r.status, r.read().decode())' `
	nodeGet = `node -e 'const u=process.argv[1]; require(u.split(":")[0]).get(u, {ca: require("fs").readFileSync("` + authorities + `")}, r => {
let b = ""; r.on("data", d => b += d); r.on("end", () => console.log(r.statusCode, b))}).on("error", e => console.log(e))' `
	sshOptions = "-F none -i key -o UserKnownHostsFile=known -o BatchMode=yes"
	gitShell   = `git -c core.sshCommand="ssh ` + sshOptions + `" clone -q ssh://root@shell.test`
	pip        = "/usr/bin/pip3 download -q --no-deps --no-cache-dir --disable-pip-version-check --retries 0 --trusted-host packages.test -d out --index-url "
	npm        = "npm install --no-audit --no-fund --no-update-notifier --loglevel=error --fetch-retries 0 --cafile " + authorities + " --registry "
)

// webRules grant the web clients a path and a host.
var webRules = allow("web.test", `scheme = "http"`, `path_prefix = "/open"`, `methods = ["GET"]`) + allow("web.test", `scheme = "https"`) +
	deny("web.test", `scheme = "http"`, `path_prefix = "/open/shut"`) + deny("other.test")

type client struct {
	name    string
	needs   []string
	server  *part // in addition to the common ones
	rules   string
	granted [][2]string // shell commands, and patterns for their output
	denied  []deniedRequest
}

type deniedRequest struct{ line, want, denial string }

// webDenials returns the denied requests of a client whose command ends with a URL.
func webDenials(get, body string) []deniedRequest {
	return []deniedRequest{
		{get + "http://web.test/open/shut/a", `403[^2]*` + body, "connect http://web.test:80/open/shut/a rule_denies net.3"},
		{get + "http://web.test/a", `403[^2]*` + body, "connect http://web.test:80/a host_not_listed"},
		{get + "https://other.test/open/a", unresolved, "resolve dns://other.test rule_denies net.4"},
		{get + "http://web.test:8081/open/a", unreachable, "connect tcp://" + webIP + ":8081 host_not_listed"},
		{get + "https://" + otherIP + "/", "(?i)access.denied", "connect https://" + otherIP + ":443 host_not_listed"},
	}
}

// proxied returns requests through a proxy: rules must grant the proxy, the requested address, and the requests in the tunnel.
func proxied(program, port string) client {
	by := "curl -sS -x http://proxy.test:" + port + " "
	return client{
		name: program, needs: []string{"curl"}, rules: webRules + allow("proxy.test", `scheme = "http"`, "port = "+port),
		granted: [][2]string{{
			"http_proxy=http://proxy.test:" + port + " https_proxy=http://proxy.test:" + port + " curl -sS https://web.test/a http://web.test/open/a",
			"^real GET https://web.test/a by HTTP/2.0 at .*\nreal GET http://web.test/open/a by HTTP/1.[01] at ",
		}},
		denied: []deniedRequest{
			{by + "https://other.test/a", "403", "connect tcp://other.test:443 host_not_listed"},
			{by + "https://third.test/a", "403", "connect tcp://third.test:443 host_not_listed"},
			{by + "https://" + otherIP + "/a", "403", "connect tcp://" + otherIP + ":443 host_not_listed"},
			{by + "-p http://web.test:8081/open/a", "403", "connect tcp://web.test:8081 host_not_listed"},
			{by + "http://other.test/open/a", `"reason"`, "connect http://other.test:80/open/a rule_denies net.4"},
			{by + "http://web.test/a", `"reason"`, "connect http://web.test:80/a host_not_listed"},
			{by + "-p http://web.test/open/shut/a", `"reason"`, "connect http://web.test:80/open/shut/a rule_denies net.3"},
			{by + "--connect-to other.test:443:web.test:443 https://other.test/a", "(?i)access.denied", "connect https://other.test:443 rule_denies net.4"},
			{"curl -sS -x http://proxy.test:8081 https://web.test/a", unreachable, "connect tcp://" + dataIP + ":8081 host_not_listed"},
		},
	}
}

// library returns the client of a language's library.
func library(name, get string, needs ...string) client {
	return client{
		name: name, needs: needs, rules: webRules,
		granted: [][2]string{{get + "https://web.test/a", "^200 real GET"}, {get + "http://web.test/open/a", "^200 real GET"}},
		denied:  webDenials(get, `(?s).*"reason"`),
	}
}

// Error messages of the clients.
const (
	unresolved  = "(?i)not resolve|not known|no such host|ENOTFOUND|no address|not translate|No matching distribution"
	unreachable = "(?i)denied|EACCES|couldn't connect|failed to connect|could not connect|unable to connect|reset by|No matching distribution"
)

// Unmodified programs with real servers: granted requests work as without toolguard, and all others are denied at once.
var clients = []client{
	{
		name: "curl", needs: []string{"curl"}, rules: webRules,
		granted: [][2]string{
			{"curl -sS http://web.test/open/a", "^real GET http://web.test/open/a by HTTP/1.1 at "},
			{"curl -sS --http2 https://web.test/a", "^real GET https://web.test/a by HTTP/2.0 at (" + webIP + "|" + web6 + ")\n$"},
			{"curl -sS --http1.1 https://web.test/a", "^real GET https://web.test/a by HTTP/1.1 at"},
		},
		denied: append(webDenials("curl -sS -w '%{http_code}' ", ""),
			deniedRequest{"curl -sS -X POST -d x http://web.test/open/a", `"method": "POST"`, "connect http://web.test:80/open/a host_not_listed"}),
	},
	library("Python", urllib, "python3"),
	library("Node", nodeGet, "node"),
	library("Go", "$SERVERS/bin/get "),
	{
		name: "git, HTTPS", needs: []string{"git"},
		rules: allow("git.test", `scheme = "https"`) + allow("git.test", `scheme = "http"`, `path_prefix = "/files/repo.git"`) + deny("other.test"),
		granted: [][2]string{
			{"git clone -q https://git.test/files/repo.git out && cat out/file", "^from the repository\n$"},
			{"git clone -q http://git.test/files/repo.git out && cat out/file", "^from the repository\n$"},
		},
		denied: []deniedRequest{
			{"git clone -q http://git.test/files/other.git out", "403", "connect http://git.test:80/files/other.git/info/refs host_not_listed"},
			{"git clone -q https://other.test/files/repo.git out", unresolved, "resolve dns://other.test rule_denies net.3"},
			{"git clone -q https://git.test:8081/files/repo.git out", unreachable, "connect tcp://" + webIP + ":8081 host_not_listed"},
		},
	},
	{
		name: "git, SSH", needs: []string{"git"}, server: &shell, rules: allow("shell.test", "port = 22") + deny("other.test"),
		granted: [][2]string{{gitShell + "$SERVERS/www/repo.git out && cat out/file", "^from the repository\n$"}},
		denied: []deniedRequest{
			{strings.Replace(gitShell, "shell", "other", 1) + "$SERVERS/www/repo.git out", unresolved, "resolve dns://other.test rule_denies net.2"},
			{gitShell + ":8081$SERVERS/www/repo.git out", unreachable, "connect tcp://" + shellIP + ":8081 host_not_listed"},
		},
	},
	{
		name: "ssh", server: &shell, rules: allow("shell.test", `scheme = "ssh"`) + deny("other.test"),
		granted: [][2]string{{"ssh " + sshOptions + " root@shell.test 'echo $((6*7))'", "^42\n$"}},
		denied: []deniedRequest{
			{"ssh " + sshOptions + " root@other.test true", unresolved, "resolve dns://other.test rule_denies net.2"},
			{"ssh " + sshOptions + " -p 8081 root@shell.test true", unreachable, "connect tcp://" + shellIP + ":8081 host_not_listed"},
			{"ssh " + sshOptions + " root@" + otherIP + " true", unreachable, "connect tcp://" + otherIP + ":22 host_not_listed"},
		},
	},
	{
		name: "pip", needs: []string{"pip3"},
		rules:   allow("packages.test", `scheme = "https"`) + allow("packages.test", `scheme = "http"`, `path_prefix = "/files/npm"`) + deny("other.test"),
		granted: [][2]string{{pip + "https://packages.test/files/simple/ small && ls out", "^small-1.0-py3-none-any.whl\n$"}},
		denied: []deniedRequest{
			{pip + "http://packages.test/files/simple/ small", "No matching distribution", "connect http://packages.test:80/files/simple/small/ host_not_listed"},
			{pip + "https://other.test/files/simple/ small", unresolved, "resolve dns://other.test rule_denies net.3"},
			{pip + "http://packages.test:8081/files/simple/ small", unreachable, "connect tcp://" + webIP + ":8081 host_not_listed"},
		},
	},
	{
		name: "npm", needs: []string{"npm"},
		rules:   allow("packages.test", `scheme = "https"`) + allow("packages.test", `scheme = "http"`, `path_prefix = "/files/simple"`) + deny("other.test"),
		granted: [][2]string{{npm + "https://packages.test/files/npm/ small && ls node_modules", "small\n$"}},
		denied: []deniedRequest{
			{npm + "http://packages.test/files/npm/ small", "403", "connect http://packages.test:80/files/npm/small host_not_listed"},
			{npm + "https://other.test/files/npm/ small", "ENOTFOUND", "resolve dns://other.test rule_denies net.3"},
			{npm + "http://packages.test:8081/files/npm/ small", "EACCES", "connect tcp://" + webIP + ":8081 host_not_listed"},
		},
	},
	{
		name: "psql", server: &data, rules: allow("data.test", "port = 5433") + deny("other.test"),
		granted: [][2]string{{"psql -h data.test -p 5433 -U postgres -Atc 'select 6*7'", "^42\n$"}},
		denied: []deniedRequest{
			{"psql -h other.test -U postgres -Atc 'select 6*7'", unresolved, "resolve dns://other.test rule_denies net.2"},
			{"psql -h data.test -p 8081 -U postgres -Atc 'select 6*7'", unreachable, "connect tcp://" + dataIP + ":8081 host_not_listed"},
		},
	},
	{
		name: "redis-cli", server: &data, rules: allow("data.test", "port = 6379") + deny("other.test"),
		granted: [][2]string{{"redis-cli -h data.test set a b", "^OK\n"}},
		denied: []deniedRequest{
			{"redis-cli -h other.test ping", unresolved, "resolve dns://other.test rule_denies net.2"},
			{"redis-cli -h data.test -p 8081 ping", unreachable, "connect tcp://" + dataIP + ":8081 host_not_listed"},
		},
	},
	{
		name: "iperf3", server: &data, rules: allow("data.test", "port = 5201"),
		granted: [][2]string{{"iperf3 -c data.test -n 10M", "receiver\n"}},
		denied:  []deniedRequest{{"iperf3 -c data.test -p 8081 -n 10M", unreachable, "connect tcp://" + dataIP + ":8081 host_not_listed"}},
	},
}

func TestClients(t *testing.T) {
	needsServers(t)
	files.require(t)
	testClients(t, clients, 0)
}

// The same through other projects' proxies.
func TestProxies(t *testing.T) {
	needsServers(t)
	proxies.require(t)
	testClients(t, byProxies, 0)
}

// The suggested grant of a proxy allows the proxy for granted targets only.
func TestGrantOfProxy(t *testing.T) {
	needs(t, "curl")
	p := newFixture(t, `default = { net = "deny", env = "allow" }`, allow("api.test", `scheme = "http"`))
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer proxy.Close()
	go nettest.ServeWeb(proxy, nil)
	get := func(cmd func(string) *exec.Cmd, want string) {
		t.Helper()
		c := cmd("curl -sS -m 10 http://api.test/ http://other.test/")
		c.Env = append(c.Env, "http_proxy=http://user:secret@"+proxy.Addr().String())
		if got := outcomeOf(t, c).output; !regexp.MustCompile(want).MatchString(got) {
			t.Fatalf("%q, not %s", got, want)
		}
	}
	const api = "(?s)^hello GET http://api.test/ by HTTP/1\n"
	get(p.command, api+"hello GET http://other.test/")
	get(p.confined, "^curl: .*\n")
	e := p.denials()[0].Unmapped
	must(t, errors.Join(p.grant(e.Suggest), os.Remove(p.events)))
	get(p.confined, api+".*denied by toolguard")
	if strings.Contains(fmt.Sprint(e), "secret") || e.Extra["advice"] == "" || !has(p.denials(), "connect http://other.test:80/ host_not_listed") {
		t.Errorf("%+v, %v", e, p.denials())
	}
}

var byProxies = []client{proxied("squid", "3128"), proxied("tinyproxy", "8888")}

func testClients(t *testing.T, clients []client, uid uint32) {
	for _, x := range clients {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			x.test(t, uid)
		})
	}
}

// ordinary is a user of every machine; ssh needs a named one.
const ordinary = 1

// The same through toolguardd, for an ordinary user.
func TestUsersClients(t *testing.T) {
	needsServers(t)
	files.require(t)
	proxies.require(t)
	daemontest.Serve(t, filepath.Join(filepath.Dir(binary), "toolguardd"))
	testClients(t, slices.Concat(clients, byProxies), ordinary)
}

// test runs a client's granted and denied commands as a user or root.
func (x *client) test(t *testing.T, uid uint32) {
	needsServers(t, x.needs...)
	if x.server != nil {
		x.server.require(t)
	}
	p := newFixture(t, "protect = false\n", "[[access.fs]]\npath = \""+realInternet.dir+"/bin\"\nread = true\nexecute = true\n\n[[access.fs]]\npath = \"/etc/gitconfig\"\nread = true\n"+x.rules)
	if uid != 0 {
		p.chown(uid)
	}
	if x.server == &shell {
		p.addClientFiles()
	}
	for _, g := range x.granted {
		p.expectBare(g[0], g[1], true)
	}
	denied := x.denied
	if uid != 0 || x.name == "squid" && os.Getenv("TOOLGUARD_VM") != "" {
		// One is enough where everything is slow; tinyproxy's, TestAttacks and test/daemon.TestNetworkTricks have more.
		denied = denied[:min(1, len(denied))]
	}
	for _, r := range denied {
		p.expectBare(r.line, r.want, false)
	}
	s := startRunning(t, p)
	for _, g := range x.granted {
		t.Logf("%s: granted", s.timed(g[0], g[1]))
	}
	if all := p.denials(); len(all) > 0 {
		t.Errorf("events %q", all)
	}
	for _, r := range denied {
		t.Logf("%s: %s", s.timed(r.line, r.want), r.denial)
		var all []reported
		if !childtest.Within(defaultTimeout, func() bool { all = p.denials(); return has(all, r.denial) }) {
			t.Errorf("%s: no event %q among %q", r.line, r.denial, all)
		}
	}
}

// addClientFiles adds the files that the clients need.
func (p *fixture) addClientFiles() {
	p.t.Helper()
	for _, name := range []string{"key", "known"} {
		b, err := os.ReadFile(filepath.Join(realInternet.dir, name))
		must(p.t, err)
		p.write(name, b)
	}
}

// expectBare runs a command without toolguard, and checks whether its output matches.
func (p *fixture) expectBare(line, want string, is bool) {
	p.t.Helper()
	if got := outcomeOf(p.t, p.command(clean(line))); regexp.MustCompile(want).MatchString(got.output) != is {
		p.t.Errorf("without toolguard %s prints %q, and %s: %v", line, got.output, want, !is)
	}
}

// timed returns the time that a command needs for its expected output.
func (r *running) timed(line, want string) time.Duration {
	r.t.Helper()
	r.write("line", []byte(clean(line)))
	start := time.Now()
	got := r.do("sh line") // a script of several lines
	took := time.Since(start).Round(time.Millisecond)
	if got, _, _ = strings.Cut(got, "exit "); !regexp.MustCompile(want).MatchString(got) {
		r.t.Errorf("%s: %q, not %s", line, got, want)
	}
	return took
}

// clean returns a command that first removes the files of earlier ones.
func clean(line string) string {
	return "rm -rf out node_modules package*.json .npm .cache; " + strings.ReplaceAll(line, "$SERVERS", realInternet.dir)
}
