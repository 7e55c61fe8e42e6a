//go:build linux

package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// moment is when a file could be opened, or couldn't any more.
type moment struct {
	At int64 // by the monotonic clock
	N  int   // how often it was tried
}

// clock is the monotonic clock, which all processes share.
func clock(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

// becomes makes an agent try something until it's possible, or isn't any more.
func (a *agent) becomes(what, how string, possible bool) <-chan reply {
	a.t.Helper()
	return a.send(map[string]any{"do": "until", "args": []any{what, how, possible}})
}

// A process whose open is denied asks for the grant, and opens the file as soon as a person has given it: without a restart, for as long as the person
// says, and no more than was asked for.
func TestGrants(t *testing.T) {
	share(t)
	h := newHost(t, nobodyUID, approving)
	lasting := filepath.Dir(h.job.outside) + "/lasting"
	must(t, errors.Join(os.WriteFile(lasting, nil, 0o666), os.Chmod(lasting, 0o666), os.Chmod(h.job.outside, 0o666)))
	h.begin()
	id, person := h.id(), h.outside(nobodyUID)
	tool := func(call string) string {
		return h.submit(call, "read", map[string]string{"file_path": lasting}).State
	}
	if before := tool("1"); before != message.Denied {
		t.Errorf("a call that reads the file is %s", before)
	}

	first := h.becomes(lasting, "read", true)
	asked := h.grant("fs", "read", lasting)
	if h.tries(lasting, "read") {
		t.Error("the file can be read before a person has given the grant")
	}
	h.want(403, "POST", message.Approvals+"/"+asked, once)
	waiter := h.send(request("GET", message.Approvals+"/"+asked+"/decision?wait_ms=300000", nil))
	since := clock(t)
	if effect := person.decides(id, asked, message.AllowOnce, 0); effect != "now" {
		t.Errorf("the effect is %q", effect)
	}
	answered := clock(t)
	opened := in[moment](h.agent, h.await(first))
	took := time.Duration(opened.At - since)
	t.Logf("opened %v after the decision, which took %v, at attempt %d", took, time.Duration(answered-since), opened.N)
	if took > 5*time.Second || opened.N < 2 {
		t.Errorf("the file was opened %v after the decision, at attempt %d", took, opened.N)
	}
	if d := in[message.Decided](h.agent, h.await(waiter)); d.Decision == nil || *d.Decision != message.AllowOnce || d.Effect != "now" {
		t.Errorf("who waits for the decision gets %+v", d)
	}
	if h.tries(lasting, "write") {
		t.Error("a grant to read lets the file be written")
	}
	if after := tool("2"); after != message.Running {
		t.Errorf("with the grant, a call that reads the file is %s", after)
	}

	short := h.becomes(h.job.outside, "read", true)
	asked = h.grant("fs", "read", h.job.outside)
	if effect := person.decides(id, asked, message.AllowOnce, 3*time.Second); effect != "now" {
		t.Errorf("the effect is %q", effect)
	}
	answered = clock(t)
	h.await(short)
	over := in[moment](h.agent, h.await(h.becomes(h.job.outside, "read", false)))
	took = time.Duration(over.At - answered)
	t.Logf("a grant for 3s was withdrawn %v after the decision", took)
	if took < time.Second || took > 30*time.Second {
		t.Errorf("a grant for 3s was withdrawn %v after the decision", took)
	}
	if !h.tries(lasting, "read") {
		t.Error("the other grant was withdrawn, too")
	}
	asked = h.grant("fs", "update", lasting)
	person.decides(id, asked, message.Deny, 0)
	if h.tries(lasting, "write") {
		t.Error("a grant that was denied is in force")
	}
	person.decides(id, h.grant("fs", "update", lasting), message.AllowOnce, 0)
	if !h.tries(lasting, "write") {
		t.Error("the file can't be written with a grant for that")
	}
}

// Grants of other resources: a host that a running session may connect to from now on, if it has sockets for that; a program; and a variable, which no
// running process gets.
func TestGrantsOfResources(t *testing.T) {
	share(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	address := l.Addr().String()
	const sockets = "[[access.net]]\nhost = \"192.0.2.1\"\nallow = true\n"
	for _, x := range []struct{ more, resource, action, target, try, how, effect string }{
		{sockets, "net", "connect", "tcp://" + address, address, "connect", "now"},
		{sockets, "command", "run", "/usr/bin/true", "/usr/bin/true", "run", "now"},
		{"", "net", "connect", "tcp://" + address, address, "connect", "next start: a running session can't get internet sockets of a kind that it didn't begin with"},
		{"", "env", "read", "TEST_OF_GRANTS", "", "", "next start: the environment of running processes doesn't change"},
	} {
		h := newHost(t, nobodyUID, strings.Replace(approving, `net = "deny"`, `net = "deny", commands = "deny"`, 1)+`
[access.commands]
python3 = {}
bash = {}
[[access.env]]
name = "LANG"
read = true
`+x.more).begin()
		if x.how != "" && h.tries(x.try, x.how) {
			t.Errorf("%s is possible without a grant", x.target)
		}
		effect := h.outside(nobodyUID).decides(h.id(), h.grant(x.resource, x.action, x.target), message.AllowOnce, 0)
		if effect != x.effect {
			t.Errorf("the effect of %s is %q, want %q", x.target, effect, x.effect)
		}
		if x.how != "" && h.tries(x.try, x.how) != (effect == "now") {
			t.Errorf("%s is possible or not, contrary to the effect %q", x.target, effect)
		}
		h.end()
	}
}

// Once another policy is in force, no grant and no end of one puts the former policy back.
func TestGrantsAfterReload(t *testing.T) {
	share(t)
	h := newHost(t, nobodyUID, approving)
	short := h.job.outside + "-short"
	own := h.workspace + "/own"
	must(t, errors.Join(os.WriteFile(short, nil, 0o644), os.WriteFile(own, nil, 0o666), os.Chmod(own, 0o666)))
	h.begin()
	id, person := h.id(), h.outside(nobodyUID)
	person.decides(id, h.grant("fs", "read", short), message.AllowOnce, 20*time.Second)
	given := clock(t)
	if !h.tries(short, "read") || !h.tries(own, "write") {
		t.Error("the grant isn't in force, or the workspace can't be written")
	}
	narrow := h.write("../narrow.toml", strings.Replace(approving, `path = "."`, `path = "elsewhere"`, 1))
	if out, code := ask(t, nobodyUID, "sessions", "reload", id, "--policy", narrow); code != 0 {
		t.Fatalf("reload: %d, %s", code, out)
	}
	effect := person.decides(id, h.grant("fs", "read", h.job.outside), message.AllowOnce, 0)
	if !strings.HasPrefix(effect, "next start: the session's policy was replaced") {
		t.Errorf("the effect of a grant is %q", effect)
	}
	time.Sleep(time.Until(time.Now().Add(22*time.Second - time.Duration(clock(t)-given))))
	for file, how := range map[string]string{short: "read", h.job.outside: "read", own: "write"} {
		if h.tries(file, how) {
			t.Errorf("the policy that has replaced the session's isn't in force: %s %s is possible", how, file)
		}
	}
	if s := sessions(t, nobodyUID); len(s) != 1 || s[0].Reloads != 2 {
		t.Errorf("the sessions are %+v", s)
	}
}

// Nobody is asked for what the host's policies deny, or for a secret.
func TestGrantsThatNobodyGives(t *testing.T) {
	share(t)
	h := newHost(t, nobodyUID, approving)
	hostDenies(t, h.job.outside)
	free := filepath.Dir(h.job.outside) + "/free"
	must(t, os.WriteFile(free, nil, 0o644))
	h.begin()
	for _, x := range []struct {
		target, why string
	}{
		{h.job.outside, "the policy of this machine, " + hostFile},
		{h.home + "/.ssh/id_ed25519", "secret"},
		{"/etc/toolguard/policy.d/new.toml", ""},
	} {
		r := h.want(403, "POST", message.Approvals, message.Grant{Why: "test", Resource: "fs", Action: "update", Target: x.target})
		if !strings.Contains(string(r.Body), x.why) {
			t.Errorf("%s: %s, want that it's about %s", x.target, r.Body, x.why)
		}
	}
	if list := h.listed(); len(list) != 0 {
		t.Errorf("a person is asked %q", list)
	}
	h.outside(nobodyUID).decides(h.id(), h.grant("fs", "read", free), message.AllowOnce, 0)
	if !h.tries(free, "read") || h.tries(h.job.outside, "read") {
		t.Error("another file's grant has another effect than on this file")
	}
}
