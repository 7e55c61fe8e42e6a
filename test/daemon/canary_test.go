//go:build linux

package daemon

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
)

// canaries are secrets, each of which is used once.
type canaries struct {
	*testing.T
	n int
}

// song is a part of all canaries.
const song = "k4n4rikeet"

func canary(n int) string { return fmt.Sprintf("%s%03dyz", song, n) }

// plant replaces each CANARY by a new canary, and each PERCENT by a percent-encoded one.
func (c *canaries) plant(text string) string {
	return regexp.MustCompile("CANARY|PERCENT").ReplaceAllStringFunc(text, func(how string) string {
		c.n++
		if how == "PERCENT" {
			return percent(canary(c.n))
		}
		return canary(c.n)
	})
}

func percent(text string) (out string) {
	for _, b := range []byte(text) {
		out += fmt.Sprintf("%%%02X", b)
	}
	return out
}

// sung reports whether a canary, or song, is in a text, in any of several encodings, and returns the text around it.
func sung(text, canary string) (around string, is bool) {
	ways := []string{canary, percent(canary), strings.ToLower(percent(canary)), hex.EncodeToString([]byte(canary))}
	for skip := range 3 { // the bytes before it in its first base64 group
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			whole := e.EncodeToString([]byte(strings.Repeat("x", skip) + canary))
			ways = append(ways, whole[[]int{0, 2, 3}[skip]:len(whole)-1])
		}
	}
	for _, way := range ways {
		if at := strings.Index(text, way); at >= 0 {
			return text[max(0, at-200):min(len(text), at+100)], true
		}
	}
	return "", false
}

// talkative is a policy with rules of all kinds, which records every execution.
var talkative = strings.Replace("audit = \"exec\"\n"+netPolicy(
	allowed+"\nscheme = \"https\"\npath_prefix = \"/open\"", allowed+"\nscheme = \"http\"\npath_prefix = \"/open\"",
), "[access]", "[access]\ntls_intercept = true", 1) + `
[[access.env]]
name = "*"
read = true

[[access.env]]
name = "AWS_*"
read = false
`

// indiscreet are lines for a shell with secrets that could reach events or logs.
var indiscreet = []string{
	`curl -sv -m 60 -u me:CANARY -H 'Cookie: id=CANARY' -H 'X-Api-Key: CANARY' 'http://allowed.test/shut?token=CANARY&neighbour'`,
	`curl -sv -m 60 -b sid=CANARY 'https://me:CANARY@allowed.test/shut/neighbour?q=CANARY'`,
	`curl -sv -m 60 -H "Authorization: Bearer $GITHUB_TOKEN" -H 'X-Auth-Token: CANARY' 'https://allowed.test/open/neighbour?q=PERCENT'`,
	`curl -sv -m 60 -H 'X-Original-URL: /shut/header?token=CANARY' 'http://allowed.test/open?CANARY'`,
	`curl -sv -m 60 -H 'Destination: http://me:CANARY@allowed.test/shut/moved?CANARY' 'http://allowed.test/open'`,
	`curl -sv -m 60 -H 'Host: denied.test' 'http://allowed.test/open?CANARY'`,
	`curl -sv -m 60 'http://allowed.test/shut;jsessionid=CANARY'`,
	`curl -sv -m 60 -x http://me:CANARY@allowed.test:80 'http://denied.test/shut/proxied?token=CANARY'`,
	`at='https://denied.test/?CANARY'; curl -sv -m 60 $at; echo $at`,
	`exec 3<>/dev/tcp/allowed.test/80; cat raw; cat raw >&3; cat <&3`,
	`/bin/echo neighbour --password CANARY --token=CANARY API_KEY=CANARY '{"password": "CANARY"}' postgres://me:CANARY@db/x mysql://db/?CANARY`,
	`env API_KEY=CANARY printenv API_KEY; /bin/echo neighbour -u me:CANARY 'Cookie: CANARY; b=CANARY' ghp_CANARY0123456789abcdef`,
	`echo "$GITHUB_TOKEN $SESSION_COOKIE $NEIGHBOUR"; read x <OUTSIDE`,
}

// raw is a malformed HTTP request.
const raw = "GET /open?token=CANARY HTTP/1.1\r\nHost: allowed.test\r\nCANARY\r\nAuthorization : Basic CANARY\r\n\r\n"

// job starts a command that runs the indiscreet lines, with the output in a file of its own, and waits for them. It ends when the file "over" exists.
func (c *canaries) job(i *internet, uid uint32, flags ...string) *job {
	c.Helper()
	j := newJob(c.T, uid, talkative, c.plant(`exec >out 2>&1; echo $* --password CANARY; while read -r line; do bash -c "$line"; done <lines
echo up >can; until [ -e over ]; do sleep 0.1; done`), append(flags, "--report", "always", "--tool", "neighbour")...)
	j.Args = append(j.Args, "me", c.plant("--token=CANARY"))
	must(c.T, os.WriteFile(j.workspace+"/lines", []byte(strings.ReplaceAll(c.plant(strings.Join(indiscreet, "\n")+"\n"), "OUTSIDE", j.outside)), 0o644))
	must(c.T, os.WriteFile(j.workspace+"/raw", []byte(c.plant(raw)), 0o644))
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SESSION_COOKIE", "NEIGHBOUR"} {
		j.Env = append(j.Env, c.plant(name+"=CANARY"))
	}
	c.Cleanup(func() {
		if c.Failed() {
			out, err := os.ReadFile(j.workspace + "/out")
			c.Logf("a command's output: %s\n%v", out, err)
		}
	})
	i.enter()
	defer i.leave()
	j.start().wrote("can", "up") // the second one loads BPF programs of its own: on an emulated machine they take minutes together
	return j
}

// listed may execute listed commands, and is denied other arguments.
func (c *canaries) listed() *job {
	c.Helper()
	return newJob(c.T, nobodyUID, work+"\n[access.commands.bash]\nargs = [[\"-c\", \"**\"]]\n[access.commands.echo]\nargs = [[\"well\"]]\n",
		c.plant(`exec >out 2>&1; /bin/echo neighbour --token CANARY password:CANARY; echo "$BASH_EXECUTION_STRING"`), "--report", "always")
}

// outputs are texts by their source.
type outputs struct {
	*testing.T
	by map[string]string
}

// ask adds the output of a toolguard command.
func (h *outputs) ask(args ...string) {
	h.Helper()
	out, code := ask(h.T, 0, args...)
	if code != 0 {
		h.Errorf("%s: %d\n%s", args, code, out)
	}
	h.by[strings.Join(args, " ")] += out
}

// files adds the files of a folder.
func (h *outputs) files(dir string) {
	h.Helper()
	must(h.T, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "token" {
			h.by[name] += fileText(h.T, name)
		}
		return err
	}))
}

// started adds the arguments and environments of processes.
func (h *outputs) started(pids ...int) {
	h.Helper()
	for _, pid := range pids {
		for _, what := range []string{"cmdline", "environ"} {
			h.by[fmt.Sprintf("%s of %d", what, pid)] = "contents: " + fileText(h.T, fmt.Sprintf("/proc/%d/%s", pid, what))
		}
	}
}

// get adds the answer to a request to a unix socket.
func (h *outputs) get(socket, path string) string {
	h.Helper()
	out, err := exec.Command("curl", "-sS", "--unix-socket", socket, "http://x"+path).CombinedOutput()
	must(h.T, err)
	h.by[socket+path] += string(out)
	return string(out)
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

// shipped adds what toolguard-ship sends to sinks of each type, in each format.
func (h *outputs) shipped(state, token string) {
	h.Helper()
	dir := h.TempDir()
	var got childtest.Output
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nettest.Collect(&got, r)
		_, _ = io.WriteString(w, nettest.Collected)
	}))
	defer web.Close()
	var settings strings.Builder
	sink := func(kind, format, more string, args ...any) {
		fmt.Fprintf(&settings, "[[sink]]\nname = '%s-%s'\ntype = '%[1]s'\nformat = '%[2]s'\n"+more+"\n", append([]any{kind, format}, args...)...)
	}
	fmt.Fprintf(&settings, "spool = '%s/audit'\nstate = '%s'\nmetrics = '%[2]s/metrics'\n", state, dir)
	for _, format := range formats {
		for _, kind := range []string{"webhook", "hec", "otlp"} {
			sink(kind, format, "url = '%[3]s'\ntoken_file = 'token'", web.URL)
		}
		log, err := nettest.Datagrams(&got, dir+"/log-"+format)
		must(h.T, err)
		defer log.Close()
		sink("file", format, "path = '%[3]s/out-%[2]s'", dir)
		sink("syslog", format, "url = 'unix://%[3]s/log-%[2]s'", dir)
		sink("stdout", format, "")
	}
	journal, err := nettest.Datagrams(&got, dir+"/journal")
	must(h.T, err)
	defer journal.Close()
	sink("journald", "ocsf", "path = '%[3]s/journal'", dir)
	must(h.T, errors.Join(os.WriteFile(dir+"/ship.toml", []byte(settings.String()), 0o600), os.WriteFile(dir+"/token", []byte(token), 0o600)))

	var said childtest.Output
	ship := exec.Command(built+"/toolguard-ship", "--config", dir+"/ship.toml")
	ship.Env, ship.Stdout, ship.Stderr = []string{"CREDENTIALS_DIRECTORY=" + dir}, &said, &said
	must(h.T, ship.Start())
	defer func() { _, _ = ship.Process.Kill(), ship.Wait() }()
	end, err := audit.End(state + "/audit")
	must(h.T, err)
	eventually(h.T, "all sinks have all records", func() bool {
		all, _ := audit.ReadCursors(dir + "/state.json")
		n := 0
		for _, c := range all {
			if c.Sequence >= end.Sequence {
				n++
			}
		}
		return n == strings.Count(settings.String(), "[[sink]]")
	})
	h.started(ship.Process.Pid)
	h.get(dir+"/metrics", "/metrics")
	out, err := exec.Command(built+"/toolguard-ship", "--config", dir+"/ship.toml", "status").CombinedOutput()
	must(h.T, err)
	h.by["toolguard-ship status"] = string(out)
	must(h.T, ship.Process.Signal(syscall.SIGTERM))
	_ = ship.Wait()
	h.by["toolguard-ship"], h.by["the receivers"] = said.String(), got.String()
	h.files(dir)
}

var formats = []string{"ocsf", "ecs", "text"}

// No secret of a confined process, in variables, arguments, headers or queries, is in anything that toolguard prints, records or sends.
func TestCanaries(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	i := newInternet(t)
	c, h := &canaries{T: t}, &outputs{t, map[string]string{}}
	var live []string
	for _, format := range formats {
		live = append(live, followed(t, 0, "--format", format, "--since", "1h", "--follow"))
	}
	jobs := []*job{c.job(i, other), c.job(i, 0, "--daemon", "none")}
	h.ask("sessions", "list")
	h.ask("sessions", "list", "--json")
	for _, one := range sessions(t, 0) {
		h.ask("sessions", "show", one.ID)
		h.ask("sessions", "show", "--json", one.ID)
	}
	h.files(state)
	h.started(append(egressesOf(t, s.Process.Pid), s.Process.Pid)...)

	listed := c.listed().start()
	jobs = append(jobs, listed)
	var own strings.Builder // the output of the commands, where the secrets are
	var ids []string
	for n, j := range jobs {
		must(t, os.WriteFile(j.workspace+"/over", nil, 0o644))
		j.status()
		own.WriteString(fileText(t, j.workspace+"/out") + strings.Join(j.Env, " "))
		h.by[fmt.Sprintf("toolguard exec %d", n)], h.by[j.events] = j.out.String(), fileText(t, j.events)
		h.ask("report", "--events", j.events)
		h.ask("report", "--events", j.events, "--json")
		if n != 1 { // toolguardd doesn't own that one
			ids = append(ids, j.reported()[0].Session)
		}
	}
	if said := listed.out.String(); listed.count("denial", "/usr/bin/echo") != 1 || !strings.Contains(said, "commands.echo, ") {
		t.Errorf("the events of the denied arguments are %+v, the output is %q", listed.reported(), said)
	}
	for _, id := range ids {
		h.ask("report", id)
		h.ask("report", id, "--json")
	}
	for n, format := range formats {
		h.ask("events", "--since", "all", "--format", format)
		for _, id := range ids {
			eventually(t, "all events are received", func() bool { return strings.Contains(fileText(t, live[n]), "session "+id+" ended") })
		}
		h.by["events --follow, "+format] = fileText(t, live[n])
	}
	h.get(socket, "/metrics")
	h.get(socket, "/healthz")
	s.stop(syscall.SIGTERM)
	h.by["toolguardd"] = "log: " + s.logSince(0)
	h.ask("audit", "verify", state+"/audit")
	h.ask("audit", "verify", "--json", state+"/audit")
	h.ask("audit", "export", state+"/audit")
	h.files(state)
	token := c.plant("CANARY")
	h.shipped(state, token)
	h.none(c.n, own.String()+token)
}

// eventful are the outputs with all events.
var eventful = regexp.MustCompile(`^(events .*|audit export .*|.*/0{11}1\.jsonl|the receivers|.*/out-[a-z]+|toolguard-ship)$`)

// none checks that the first n canaries were all used, that none is in the outputs, and that the outputs have the events with them.
func (h *outputs) none(n int, use string) {
	h.Helper()
	for n := range n {
		if _, is := sung(use, canary(n+1)); !is {
			h.Errorf("%s wasn't used", canary(n+1))
		}
	}
	sinks := 0
	for from, text := range h.by {
		if around, is := sung(text, song); is {
			h.Errorf("%s contains a secret: …%s…", from, around)
		}
		if text == "" && from[0] != '/' {
			h.Errorf("%s is empty", from)
		}
		if eventful.MatchString(from) {
			sinks++
			for _, word := range []string{"neighbour", "***", "/shut/header", "denied.test", "--password"} {
				if !strings.Contains(text, word) && !(word[0] == '-' && strings.HasSuffix(from, "text")) { // which has no arguments
					h.Errorf("%s doesn't contain %s either", from, word)
				}
			}
		}
	}
	if sinks != 13 {
		h.Errorf("%d outputs have all events", sinks)
	}
}
