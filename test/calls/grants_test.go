//go:build linux

package calls

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// grantee is a session whose processes ask for files of the user's outside the workspace.
const grantee = "[approvals]\ntimeout = \"10m\"\n"

// data writes a file outside the workspace, and returns its path.
func (p *fixture) data(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(p.dir, "data", name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("data"), 0o644))
	return path
}

// readable reports whether the session's process can read a file.
func (s *session) readable(t *testing.T, path string) bool {
	t.Helper()
	return s.inside.do(t, order{Trick: "open", Path: path}).Status == 200
}

// want checks whether the session's process can read a file.
func (s *session) want(t *testing.T, path string, readable bool) {
	t.Helper()
	if got := s.readable(t, path); got != readable {
		t.Errorf("%s can be read: %t", path, got)
	}
}

// grants asks for a grant, has a person decide, and returns the answer.
func (s *session) grants(t *testing.T, path, body string) *message.Decided {
	t.Helper()
	a := get[message.Approval](t, s.inside, "POST", message.Approvals, message.Grant{Why: "to compare", Resource: "fs", Action: "read", Target: path})
	if a.Decision != nil || !strings.Contains(a.Rule, path) || a.Reason != "to compare" || a.Tool != "" {
		t.Fatalf("%s", show(a))
	}
	s.event(t, "grant", "what=requested", "approval="+a.ID, "target="+path, "why=to compare")
	waiter := s.inside.begin(request("GET", message.Approvals+"/"+a.ID+message.Decision+"?wait_ms=600000", nil))
	d := get[message.Decided](t, s.outside, "POST", message.Approvals+"/"+a.ID, body)
	if got := read[message.Decided](t, s.inside.wait(t, waiter)); got.Decision == nil || *got.Decision != *d.Decision || got.Effect != d.Effect {
		t.Errorf("the requester gets %s, the person %s", show(got), show(d))
	}
	what := map[bool]string{true: "denied", false: "given"}[*d.Decision == message.Deny]
	e := s.event(t, "grant", "what="+what, "approval="+a.ID, "target="+path)
	if by := e.Actor.Process; by.PID != s.outside.pid || by.User.UID != fmt.Sprint(s.user.ID) || e.Unmapped.Extra["effect"] != d.Effect {
		t.Errorf("%s", e.text)
	}
	return d
}

// A grant is in force at the next start under Landlock: once, or always, or for a time; and for the same policy and workspace alone.
func TestGrants(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		once, always, never, timed := p.data(t, "once"), p.data(t, "always"), p.data(t, "never"), p.data(t, "timed")
		p.write(t, "sub/x", "")
		s := p.start(t, grantee)
		for _, path := range []string{once, always, never, timed} {
			s.want(t, path, false)
		}
		if d := s.grants(t, once, `{"decision":"allow-once"}`); !strings.HasPrefix(d.Effect, "next start: ") {
			t.Errorf("%s", show(d))
		}
		if d := s.grants(t, always, `{"decision":"allow-always"}`); !strings.HasPrefix(d.Effect, "next start: ") {
			t.Errorf("%s", show(d))
		}
		if d := s.grants(t, never, `{"decision":"deny"}`); d.Effect != "" {
			t.Errorf("%s", show(d))
		}
		s.grants(t, timed, `{"decision":"allow-always","for_ms":4000}`)
		given := time.Now()
		s.want(t, once, false)
		s.stop(t)

		other := p.again(t, "--workspace", "sub")
		other.want(t, once, false)
		other.want(t, always, false)
		other.stop(t)
		s = p.again(t)
		s.want(t, once, true)
		s.want(t, always, true)
		s.want(t, never, false)
		if time.Since(given) < 4*time.Second { // it began before
			s.want(t, timed, true)
		}
		// What is allowed isn't asked about.
		a := get[message.Approval](t, s.inside, "POST", message.Approvals, message.Grant{Resource: "fs", Action: "read", Target: always})
		if a.Decision == nil || *a.Decision != message.AllowOnce || len(approvals(t, s.outside)) != 0 {
			t.Errorf("%s", show(a))
		}
		s.stop(t)
		time.Sleep(time.Until(given.Add(4100 * time.Millisecond)))
		s = p.again(t)
		s.want(t, once, false)
		s.want(t, always, true)
		s.want(t, timed, false)
	})
}

// Nobody is asked for what can't be granted: the answer is why.
func TestNoGrants(t *testing.T) {
	p := newFixture(t, ordinary())
	key := p.write(t, "home/.ssh/id_ed25519", "key")
	fine := p.data(t, "fine")
	s := p.start(t, grantee)
	for i, g := range []struct {
		message.Grant
		status int
		text   string
	}{
		{message.Grant{Resource: "fs", Action: "read", Target: key}, 403, "no grant can be asked for"},
		{message.Grant{Resource: "fs", Action: "update", Target: p.in + "/p.toml"}, 403, "no grant can be asked for"},
		{message.Grant{Resource: "fs", Action: "create", Target: p.home + "/.bashrc"}, 403, "no grant can be asked for"},
		{message.Grant{Resource: "fs", Action: "update", Target: s.state("calls.json")}, 403, "no grant can be asked for"},
		{message.Grant{Resource: "fs", Action: "read", Target: ""}, 400, "no target"},
		{message.Grant{Resource: "fs", Action: "fly", Target: fine}, 400, "fly"},
		{message.Grant{Resource: "air", Action: "read", Target: fine}, 400, "air"},
		{message.Grant{Resource: "net", Action: "connect", Target: "http://user@x/"}, 400, ""},
		{message.Grant{Resource: "fs", Action: "read", Target: fine, Why: strings.Repeat("x", 10<<10)}, 413, "at most"},
		{message.Grant{Resource: "fs", Action: "read", Target: "/srv/" + strings.Repeat("x", 10<<10)}, 413, "at most"},
	} {
		why := fails(t, s.inside, g.status, "POST", message.Approvals, g.Grant)
		if !strings.Contains(why, g.text) {
			t.Errorf("%d: %+v: %s", i, g.Grant, why)
		}
	}
	if n := s.count(t, 4, "tool_denied", "reason=request_rejected", "status=403"); n != 4 || len(approvals(t, s.outside)) != 0 {
		t.Errorf("%d events, %s wait: %s", n, show(approvals(t, s.outside)), s.list(t))
	}
	if d := s.grants(t, fine, `{"decision":"allow-once"}`); d.Effect == "" { // control
		t.Errorf("%s", show(d))
	}
	id := get[message.Approval](t, s.inside, "POST", message.Approvals, message.Grant{Resource: "fs", Action: "read", Target: p.data(t, "more")}).ID
	for _, body := range []string{`{"decision":"allow-once","for_ms":-1}`, `{"decision":"allow-once","for_ms":99999999999999}`} {
		fails(t, s.outside, 400, "POST", message.Approvals+"/"+id, body)
	}
	if len(approvals(t, s.outside)) != 1 {
		t.Error("a decision that isn't valid counts")
	}

	without := p.start(t, "[gate]\nshell = \"bash\"\n")
	fails(t, without.inside, 404, "POST", message.Approvals, message.Grant{Resource: "fs", Action: "read", Target: fine})
}

// Nobody can grant what a policy of the host denies.
func TestHostDenies(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv("TOOLGUARD_VM") != "" {
		t.Skip("needs root, and a machine without toolguardd")
	}
	p := newFixture(t, ordinary())
	denied, fine := p.data(t, "denied"), p.data(t, "fine")
	host := fmt.Sprintf("version = 1\nname = \"host\"\n[access]\nfs = [\n{ path = %q, read = true, write = true, execute = true },\n{ path = %q, read = true, execute = true },\n{ path = %q, read = true },\n{ path = %q },\n]\n",
		p.workspace, filepath.Dir(self), fine, denied)
	p.wrap = []string{
		needs(t, "unshare"), "--mount", "--propagation", "private", needs(t, "sh"), "-c",
		`mkdir -p /etc/toolguard && mount -t tmpfs -o mode=755 none /etc/toolguard && mkdir /etc/toolguard/policy.d && echo "$1" > /etc/toolguard/policy.d/host.toml && shift &&
exec setpriv --reuid "$0" --regid "$0" --clear-groups "$@"`, fmt.Sprint(p.user.ID), host,
	}
	needs(t, "setpriv")
	s := p.start(t, grantee)
	why := fails(t, s.inside, 403, "POST", message.Approvals, message.Grant{Resource: "fs", Action: "read", Target: denied})
	if !strings.Contains(why, "host") {
		t.Errorf("%s", why)
	}
	s.event(t, "tool_denied", "reason=request_rejected", "status=403")
	s.grants(t, fine, `{"decision":"allow-always"}`)
	s.stop(t)
	s = p.again(t)
	s.want(t, fine, true)
	s.want(t, denied, false)
}

// A grant that was asked for is withdrawn with the session, and expires.
func TestGrantExpires(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, "[approvals]\ntimeout = \"1s\"\n")
	a := get[message.Approval](t, s.inside, "POST", message.Approvals, message.Grant{Resource: "fs", Action: "read", Target: p.data(t, "x")})
	d := get[message.Decided](t, s.inside, "GET", message.Approvals+"/"+url.PathEscape(a.ID)+message.Decision+"?wait_ms=600000", nil)
	if d.Decision != nil || d.Pending {
		t.Errorf("%s", show(d))
	}
	s.event(t, "grant", "what=expired", "approval="+a.ID)
	if r := decide(t, s.outside, a.ID, message.AllowOnce); r.Status != 404 {
		t.Errorf("%+v", r)
	}
}

// Of two sessions that begin at once, one gets what was given once.
func TestGivenOnce(t *testing.T) {
	p := newFixture(t, ordinary())
	path := p.data(t, "x")
	s := p.start(t, grantee)
	for round := range 5 {
		s.grants(t, path, `{"decision":"allow-once"}`)
		var agents []*agent
		for i := range 2 {
			cmd := p.exec(fmt.Sprintf("%s/once-%d-%d.jsonl", p.in, round, i))
			a := talk(t, cmd, "")
			must(t, cmd.Start())
			t.Cleanup(func() {
				_ = a.close()
				_ = cmd.Wait()
			})
			agents = append(agents, a)
		}
		n := 0
		for _, a := range agents {
			switch r := a.do(t, order{Trick: "open", Path: path}); r.Status {
			case 200:
				n++
			case 403:
			default:
				t.Fatalf("%+v", r)
			}
		}
		if n != 1 {
			t.Errorf("%d sessions have it", n)
		}
	}
}
