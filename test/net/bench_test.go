//go:build linux

package net

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// deniedOperations is a program that prints its waiting times for each kind of denial, in milliseconds.
const deniedOperations = `import http.client, socket, ssl, sys, time
free = ssl._create_unverified_context()
def name(): socket.getaddrinfo("denied.test", 80)
def address(): socket.create_connection(("` + deniedIP + `", 5432))
def request(path, host):
    c = http.client.HTTPConnection("allowed.test"); c.request("GET", path, headers={"Host": host}); r = c.getresponse(); c.close()
    if r.status == 403: raise OSError
def host(): request("/a", "denied.test")
def path(): request("/b", "allowed.test")
def server(): free.wrap_socket(socket.create_connection(("allowed.test", 443)), server_hostname="denied.test")
for what in name, address, host, path, server:
    for n in range(int(sys.argv[1])):
        began = time.perf_counter()
        try: what()
        except OSError: print(what.__name__, (time.perf_counter() - began) * 1000)
        else: sys.exit(what.__name__ + " isn't denied")
`

// Denials are fast: the fastest one of each kind, which a busy machine hasn't delayed, arrives within 50 ms, except on an emulated
// processor. And no program waits for a timeout to learn that it's denied: the resolver repeats a lost query after five seconds.
func TestDenialsAreFast(t *testing.T) {
	needs(t, "python3")
	took, fast := deniedAfter(t, 20), 50.0
	if os.Getenv("TOOLGUARD_VM") != "" {
		fast = 4000
	}
	for _, what := range []string{"name", "address", "host", "path", "server"} {
		all := took[what]
		slices.Sort(all)
		if t.Logf("%s: after %.1f ms", what, all); len(all) != 20 || all[0] > fast || all[19] > 4000 {
			t.Errorf("%s: after %.1f ms", what, all)
		}
	}
}

// deniedAfter returns how many milliseconds a program waits for each kind of denial, n times.
func deniedAfter(t testing.TB, n int) map[string][]float64 {
	t.Helper()
	p := newFixture(t, "", allow("allowed.test", `scheme = "http"`, `path_prefix = "/a"`)+allow("allowed.test", `scheme = "https"`))
	must(t, os.WriteFile(filepath.Join(p.workspace, "denials.py"), []byte(deniedOperations), 0o644))
	took := map[string][]float64{}
	got := outcomeOf(t, p.confined(fmt.Sprintf("python3 denials.py %d", n)))
	for line := range strings.Lines(got.output) {
		var what string
		var ms float64
		if _, err := fmt.Sscan(line, &what, &ms); err != nil {
			t.Fatal(got.output)
		}
		took[what] = append(took[what], ms)
	}
	return took
}
