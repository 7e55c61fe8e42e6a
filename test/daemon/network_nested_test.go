//go:build linux

package daemon

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// intercepting is a policy that allows the paths beneath one, under TLS.
func intercepting(path string) string {
	return strings.Replace(netPolicy(allowed+"\nscheme = \"https\"\npath_prefix = \""+path+"\""), "[access]", "[access]\ntls_intercept = true", 1)
}

// Requests under TLS are decided for ordinary users, too, with the certificate authority from the session's start: also after egress or toolguardd
// was killed, and after reloads.
func TestNetworkIntercepts(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	i := newInternet(t)
	const both = curl + "https://allowed.test/open/a https://allowed.test/shut"
	i.enter()
	if out, err := exec.Command("bash", "-c", both).CombinedOutput(); strings.Count(string(out), "hello GET https://allowed.test/") != 2 {
		t.Errorf("without toolguard: %v, %s", err, out)
	}
	i.leave()
	const open, shut, denied = "hello GET .*/open/a by HTTP/2\n", "hello GET .*/shut by HTTP/2\n", `\{\n  "error": "denied by toolguard"(?s:.*?)\n\}\n`
	w := i.worker(intercepting("/open"))
	w.expect(both, "^"+open+denied+"$")
	w.expect(`grep -c PRIVATE "$SSL_CERT_FILE"; grep -c BEGIN "$SSL_CERT_FILE"`, "^0\n2\n")
	first := egressOf(t, s.Process.Pid, 0)
	must(t, syscall.Kill(first, syscall.SIGKILL))
	egressOf(t, s.Process.Pid, first)
	w.expect(both, "^"+open+denied+"$")
	s.stop(syscall.SIGKILL)
	s = serve(t, state)
	egressOf(t, s.Process.Pid, 0)
	w.expect(both, "^"+open+denied+"$")

	id := sessions(t, other)[0].ID
	for _, x := range []struct{ policy, want string }{
		{intercepting("/shut"), denied + shut},
		{netPolicy(allowed), open + shut}, // without interception
		{intercepting("/open"), open + denied},
	} {
		if out, code := ask(t, other, "sessions", "reload", id, "--policy", w.write("../next.toml", x.policy)); code != 0 {
			t.Fatalf("reload: %d, %s", code, out)
		}
		w.expect(both, "^"+x.want+"$")
	}
	last := egressOf(t, s.Process.Pid, 0)
	must(t, syscall.Kill(last, syscall.SIGKILL))
	egressOf(t, s.Process.Pid, last)
	w.expect(both, "^"+open+denied+"$")
	w.end()
	w.wantEvent("denial", "https://allowed.test:443/shut", "host_not_listed")
	w.wantEvent("denial", "https://allowed.test:443/open/a", "host_not_listed")
}

// The network of a nested session is restricted by both policies.
func TestNetworkNarrower(t *testing.T) {
	share(t)
	i := newInternet(t)
	both, one, all := netPolicy(allowed, `host = "denied.test"`), netPolicy(allowed), strings.Replace(work, `net = "deny"`, `net = "allow"`, 1)
	within := built + "/toolguard exec --daemon require --policy inner.toml --report never -- "
	var w *worker
	outer := "" // its policy
	for _, x := range []struct{ name, outer, inner, want string }{
		{"both allow it", both, both, yes + yes},
		{"the inner doesn't", both, one, yes + unnamed},
		{"the inner allows none", both, work, unnamed + unnamed},
		{"the outer doesn't", one, both, yes + unnamed},
		{"the inner allows all", one, all, yes + unnamed},
		{"the outer allows none", work, both, unnamed + unnamed},
	} {
		if x.outer != outer {
			if w != nil {
				w.end()
			}
			w, outer = i.worker(x.outer+reach()), x.outer
		}
		w.write("inner.toml", x.inner)
		w.expect(within+fetchBoth+" # "+x.name, "^(toolguard: toolguardd doesn't answer yet.*\n)?"+x.want+"$") // which a busy machine shows
	}
	w.end()
	w = i.worker(both+reach(), "--limits", "pids=100")
	w.write("inner.toml", both)
	w.expect(within+"true; echo $?", "(?s)has\\s+limits.*125\n$")
	w.end()
}
