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

// canaries are secrets, each of which is given to something once.
type canaries struct {
	*testing.T
	n int
}

// all canaries sing this.
const song = "k4n4rikeet"

func canary(n int) string { return fmt.Sprintf("%s%03dyz", song, n) }

// plant has a new canary in each place that says CANARY, and in each that says PERCENT one with percent signs.
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

// sung tells whether a canary, or what all of them sing, is in a text, in any of the ways in which something might say it, and around which words.
func sung(text, canary string) (around string, is bool) {
	ways := []string{canary, percent(canary), strings.ToLower(percent(canary)), hex.EncodeToString([]byte(canary))}
	for skip := range 3 { // how many bytes before it are encoded with its first ones
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

// talkative is a policy of rules of all kinds, under which every program is told of.
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

// indiscreet are lines for a shell. What is in them somebody else may see, and so may what they do.
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

// what this says isn't HTTP.
const raw = "GET /open?token=CANARY HTTP/1.1\r\nHost: allowed.test\r\nCANARY\r\nAuthorization : Basic CANARY\r\n\r\n"

// job does what is indiscreet, and says it all in a file of its own. It ends when there's a file over.
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
	i.enter()
	defer i.leave()
	return j.start()
}

// listed may execute what its policy lists, and is refused arguments.
func (c *canaries) listed() *job {
	c.Helper()
	return newJob(c.T, nobody, work+"\n[access.commands.bash]\nargs = [[\"-c\", \"**\"]]\n[access.commands.echo]\nargs = [[\"well\"]]\n",
		c.plant(`exec >out 2>&1; /bin/echo neighbour --token CANARY password:CANARY; echo "$BASH_EXECUTION_STRING"`), "--report", "always")
}

// heard are outputs, by where they come from.
type heard struct {
	*testing.T
	by map[string]string
}

// of takes down what a toolguard says.
func (h *heard) of(args ...string) {
	h.Helper()
	out, code := ask(h.T, 0, args...)
	if code != 0 {
		h.Errorf("%s: %d\n%s", args, code, out)
	}
	h.by[strings.Join(args, " ")] += out
}

// files takes down all that is in a folder.
func (h *heard) files(dir string) {
	h.Helper()
	must(h.T, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "token" {
			h.by[name] += fileText(h.T, name)
		}
		return err
	}))
}

// started takes down what processes were started with.
func (h *heard) started(pids ...int) {
	h.Helper()
	for _, pid := range pids {
		for _, what := range []string{"cmdline", "environ"} {
			h.by[fmt.Sprintf("%s of %d", what, pid)] = "it's: " + fileText(h.T, fmt.Sprintf("/proc/%d/%s", pid, what))
		}
	}
}

// asked takes down what is answered at a unix socket.
func (h *heard) asked(socket, path string) string {
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

// shipped has a toolguard-ship send an audit to sinks of each type, in each format.
func (h *heard) shipped(state, token string) {
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
	eventually(h.T, "all have all", func() bool {
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
	h.asked(dir+"/metrics", "/metrics")
	out, err := exec.Command(built+"/toolguard-ship", "--config", dir+"/ship.toml", "status").CombinedOutput()
	must(h.T, err)
	h.by["toolguard-ship status"] = string(out)
	must(h.T, ship.Process.Signal(syscall.SIGTERM))
	_ = ship.Wait()
	h.by["toolguard-ship"], h.by["the receivers"] = said.String(), got.String()
	h.files(dir)
}

var formats = []string{"ocsf", "ecs", "text"}

// TestCanaries: no secret of the guarded's, in variables, arguments, headers or queries, is in anything that toolguard says, keeps or sends.
func TestCanaries(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	i := newInternet(t)
	c, h := &canaries{T: t}, &heard{t, map[string]string{}}
	var live []string
	for _, format := range formats {
		live = append(live, followed(t, 0, "--format", format, "--since", "1h", "--follow"))
	}
	jobs := []*job{c.job(i, other), c.job(i, 0, "--daemon", "none")}
	for _, j := range jobs {
		j.wrote("can", "up")
	}
	h.of("sessions", "list")
	h.of("sessions", "list", "--json")
	for _, one := range sessions(t, 0) {
		h.of("sessions", "show", one.ID)
		h.of("sessions", "show", "--json", one.ID)
	}
	h.files(state)
	h.started(append(egressesOf(t, s.Process.Pid), s.Process.Pid)...)

	listed := c.listed().start()
	jobs = append(jobs, listed)
	var own strings.Builder // what the commands say, and nobody else may
	var ids []string
	for n, j := range jobs {
		must(t, os.WriteFile(j.workspace+"/over", nil, 0o644))
		j.status()
		own.WriteString(fileText(t, j.workspace+"/out") + strings.Join(j.Env, " "))
		h.by[fmt.Sprintf("toolguard exec %d", n)], h.by[j.events] = j.out.String(), fileText(t, j.events)
		h.of("report", "--events", j.events)
		h.of("report", "--events", j.events, "--json")
		if n != 1 { // toolguardd doesn't know of that one
			ids = append(ids, j.told()[0].Session)
		}
	}
	if said := listed.out.String(); listed.count("denial", "/usr/bin/echo") != 1 || !strings.Contains(said, "commands.echo, ") {
		t.Errorf("of the arguments that it was refused is told %+v, and said %q", listed.told(), said)
	}
	for _, id := range ids {
		h.of("report", id)
		h.of("report", id, "--json")
	}
	for n, format := range formats {
		h.of("events", "--since", "all", "--format", format)
		for _, id := range ids {
			eventually(t, "all is heard", func() bool { return strings.Contains(fileText(t, live[n]), "session "+id+" ended") })
		}
		h.by["events --follow, "+format] = fileText(t, live[n])
	}
	h.asked(socket, "/metrics")
	h.asked(socket, "/healthz")
	s.stop(syscall.SIGTERM)
	h.by["toolguardd"] = "it says: " + s.said(0)
	h.of("audit", "verify", state+"/audit")
	h.of("audit", "verify", "--json", state+"/audit")
	h.of("audit", "export", state+"/audit")
	h.files(state)
	token := c.plant("CANARY")
	h.shipped(state, token)
	h.none(c.n, own.String()+token)
}

// eventful are outputs that tell of all that happened.
var eventful = regexp.MustCompile(`^(events .*|audit export .*|.*/0{11}1\.jsonl|the receivers|.*/out-[a-z]+|toolguard-ship)$`)

// none makes sure that the first n canaries, for each of which there was use, aren't in what was heard, in which they could have been found.
func (h *heard) none(n int, use string) {
	h.Helper()
	for n := range n {
		if _, is := sung(use, canary(n+1)); !is {
			h.Errorf("there was no use for %s", canary(n+1))
		}
	}
	sinks := 0
	for from, text := range h.by {
		if around, is := sung(text, song); is {
			h.Errorf("%s tells a secret: …%s…", from, around)
		}
		if text == "" && from[0] != '/' {
			h.Errorf("%s tells nothing at all", from)
		}
		if eventful.MatchString(from) {
			sinks++
			for _, word := range []string{"neighbour", "***", "/shut/header", "denied.test", "--password"} {
				if !strings.Contains(text, word) && !(word[0] == '-' && strings.HasSuffix(from, "text")) { // which has no arguments
					h.Errorf("%s doesn't tell of %s either", from, word)
				}
			}
		}
	}
	if sinks != 13 {
		h.Errorf("%d outputs tell of all", sinks)
	}
}
