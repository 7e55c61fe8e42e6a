package test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

const module = "github.com/toolguard/toolguard"

// root is the top folder of the repository, seen from this package's folder.
const root = ".."

// room is a folder of packages and what they may import.
type room struct {
	folder  string
	imports []string
}

// mayImport is the import table: which packages of this module, and which other modules, a package may import beside
// the standard library. The first prefix that fits counts. "internal/*" stands for every package below internal.
var mayImport = []room{
	{"internal/policy/policyfile", []string{"internal/policy", "github.com/pelletier/go-toml/v2"}},
	{"internal/policy/fspath/fspathtest", []string{"internal/policy/fspath"}},
	{"internal/policy/fspath", nil},
	{"internal/policy/policytest", []string{"internal/policy", "internal/childtest", "pgregory.net/rapid"}},
	{"internal/policy/explain", []string{"internal/policy"}},
	{"internal/policy/hostfs", []string{"internal/policy/fspath"}},
	{"internal/policy/netname", []string{"golang.org/x/net/idna"}},
	{"internal/policy/envname", nil},
	{"internal/policy/tomltext", nil},
	{"internal/policy", nil},
	{"internal/proc", []string{"golang.org/x/sys/unix"}},
	{"internal/userfiles", nil},
	{"internal/grant", []string{"internal/policy"}},
	{"internal/childtest", []string{"golang.org/x/sys/unix"}},
	{"internal/daemontest", []string{"internal/api"}},
	{"internal/allowlist", []string{"internal/seccomp", "github.com/elastic/go-seccomp-bpf", "golang.org/x/sys/unix"}},
	{"internal/egress/control", []string{
		"internal/egress/message", "internal/loader/cgroupsock", "internal/policy", "internal/session/launch/forkexec", "golang.org/x/sys/unix",
	}},
	{"internal/egress/message", []string{"internal/event", "internal/policy"}},
	{"internal/egress/dns", []string{"golang.org/x/net/dns/dnsmessage"}},
	{"internal/egress/relay", []string{"golang.org/x/sys/unix"}},
	{"internal/egress/process", []string{
		"internal/allowlist", "internal/egress", "internal/landlock", "internal/loader/cgroupsock", "internal/policy", "golang.org/x/sys/unix",
	}},
	{"internal/egress", []string{"internal/event", "internal/policy", "github.com/vishvananda/netlink", "golang.org/x/net", "golang.org/x/sys/unix"}},
	{"internal/nettest", []string{"internal/policy", "github.com/vishvananda/netlink", "github.com/vishvananda/netns", "golang.org/x/net", "golang.org/x/sys/unix"}},
	{"internal/event", []string{"golang.org/x/sys/unix"}},
	{"internal/audit", []string{"internal/event"}},
	{"internal/ship", []string{"internal/audit", "internal/event", "internal/metrics", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/pelletier/go-toml/v2", "golang.org/x/sys/unix"}},
	{"internal/metrics", nil},
	{"internal/version", nil},
	{"internal/kernelaudit", []string{"internal/event", "internal/policy", "golang.org/x/sys/unix"}},
	{"internal/landlock", []string{"internal/policy", "github.com/landlock-lsm/go-landlock", "golang.org/x/sys/unix"}},
	{"internal/seccomp", []string{"internal/policy", "golang.org/x/sys/unix"}},
	{"internal/session/launch/forkexec/nofile", nil}, // nothing that leads to package syscall, see its comment
	{"internal/session/launch/forkexec", []string{"internal/session/launch/forkexec/nofile", "golang.org/x/sys/unix"}},
	{"internal/loader/bpffs", []string{"golang.org/x/sys/unix"}},
	{"internal/loader/cgroupsock", []string{"internal/event", "internal/loader/bpffs", "internal/policy", "github.com/cilium/ebpf", "github.com/vishvananda/netlink/nl", "golang.org/x/sys/unix"}},
	{"internal/loader/image", []string{"internal/loader/bpffs", "internal/policy"}},
	{"internal/loader/loadertest", []string{"internal/childtest", "internal/policy", "golang.org/x/sys/unix"}},
	{"internal/loader", []string{"internal/loader/bpffs", "internal/loader/image", "internal/policy", "github.com/cilium/ebpf", "golang.org/x/sys/unix"}},
	{"internal/cgroup/managed", []string{"internal/cgroup", "internal/event", "internal/policy", "github.com/containerd/cgroups/v3/cgroup2"}},
	{"internal/cgroup", []string{"internal/policy", "golang.org/x/sys/unix"}},
	{"internal/api", []string{"internal/cgroup", "internal/event", "internal/kernelaudit", "internal/policy"}},
	{"internal/daemon/peer", []string{"internal/proc", "golang.org/x/sys/unix"}},
	{"internal/daemon", []string{"internal/*", "golang.org/x/sys/unix", "github.com/pelletier/go-toml/v2"}},
	{"internal/session/launch", []string{"internal/landlock", "internal/policy", "internal/proc", "internal/seccomp", "golang.org/x/sys/unix"}},
	{"internal/session/backend", []string{
		"internal/api", "internal/cgroup", "internal/kernelaudit", "internal/landlock", "internal/loader", "internal/policy", "internal/proc",
		"internal/seccomp", "internal/session/launch", "internal/session/network", "internal/version", "golang.org/x/sys/unix",
	}},
	{"internal/session/network", []string{
		"internal/cgroup", "internal/egress/control", "internal/egress/message", "internal/event", "internal/loader/cgroupsock", "internal/policy",
		"internal/session/denials", "internal/session/launch/forkexec", "golang.org/x/sys/unix",
	}},
	{"internal/session/denials", []string{
		"internal/api", "internal/egress/message", "internal/event", "internal/kernelaudit", "internal/loader", "internal/loader/cgroupsock", "internal/loader/image",
		"internal/policy", "internal/proc", "internal/seccomp", "golang.org/x/sys/unix",
	}},
	{"internal/session", []string{"internal/*", "golang.org/x/sys/unix"}},
	{"cmd/", []string{"internal/*", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys/unix"}},
	{"scripts/bench/guest", []string{"github.com/cilium/ebpf", "golang.org/x/sys/unix"}},
	{"scripts/bench/network", []string{"internal/nettest", "golang.org/x/sys/unix"}},
	{"scripts/", nil},
	{"test", []string{"internal/event", "internal/version"}},
}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Dir, Doc, Name string
	Standard                   bool
	Imports                    []string
	GoFiles                    []string
}

// packages lists the module's packages as built for one operating system.
func packages(t *testing.T, goos string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Name,Imports,GoFiles", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	childtest.Must(t, err)
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, module+"/bin/") { // what somebody built or tried; not in the repository
			all = append(all, p)
		}
	}
	if len(all) < 5 {
		t.Fatalf("go list names only %d packages", len(all))
	}
	return all
}

func TestImports(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range packages(t, goos) {
			rel := strings.TrimPrefix(p.ImportPath, module+"/")
			i := slices.IndexFunc(mayImport, func(r room) bool { return strings.HasPrefix(rel, r.folder) })
			if i < 0 {
				t.Errorf("%s has no line in the import table", rel)
				continue
			}
			for _, imported := range p.Imports {
				if !allowed(rel, imported, mayImport[i].imports) {
					t.Errorf("%s (%s) may not import %s", rel, goos, imported)
				}
			}
		}
	}
}

// deps are the packages that a program is made of.
func deps(t *testing.T, program, goos string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "./cmd/"+program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	childtest.Must(t, err)
	return strings.Fields(string(out))
}

// Every start of toolguard pays for what its program has in it, and these are dear (0.6 ms).
func TestLightStart(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		all := deps(t, "toolguard", goos)
		for _, dear := range []string{
			"net/http", "crypto/tls", "crypto/x509", "crypto/ed25519", "github.com/elastic/go-seccomp-bpf", "github.com/containerd/cgroups/v3/cgroup2",
		} {
			if slices.Contains(all, dear) {
				t.Errorf("cmd/toolguard (%s) leads to %s", goos, dear)
			}
		}
	}
}

// What a program is made of beside this module and the standard library is in a list, so that a change of it is seen. What a process of
// root's is made of is what it takes to do root's work; talking to collectors isn't.
func TestDependencies(t *testing.T) {
	for program, ships := range map[string]bool{"toolguard": false, "toolguardd": false, "toolguard-ship": true} {
		all := deps(t, program, "linux")
		for _, dear := range []string{module + "/internal/ship", "github.com/nats-io/nats.go"} {
			if slices.Contains(all, dear) != ships {
				t.Errorf("cmd/%s leads to %s: %t", program, dear, !ships)
			}
		}
		got := slices.DeleteFunc(all, func(p string) bool {
			first, _, _ := strings.Cut(p, "/")
			return !strings.Contains(first, ".") || strings.HasPrefix(p, module+"/")
		})
		text, err := os.ReadFile("deps/" + program + ".txt")
		childtest.Must(t, err)
		listed := strings.Fields(string(text))
		for _, p := range got {
			if !slices.Contains(listed, p) {
				t.Errorf("cmd/%s leads to %s, which test/deps/%s.txt hasn't: if it's needed, scripts/generate writes the list", program, p, program)
			}
		}
		for _, p := range listed {
			if !slices.Contains(got, p) {
				t.Errorf("test/deps/%s.txt has %s, which cmd/%s doesn't lead to any more: scripts/generate writes the list", program, p, program)
			}
		}
	}
}

func allowed(from, imported string, list []string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
	}
	imported = strings.TrimPrefix(imported, module+"/")
	if strings.HasPrefix(imported, from+"/") || strings.HasPrefix(from, imported+"/") {
		return true // a package and those within it are one room
	}
	for _, l := range list {
		prefix, wild := strings.CutSuffix(l, "*")
		if imported == l || wild && strings.HasPrefix(imported, prefix) || strings.HasPrefix(imported, l+"/") {
			return true
		}
	}
	return false
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t, "linux") {
		want := `^Package ` + p.Name + ` `
		if p.Name == "main" {
			want = `^(Command )?(?i:` + filepath.Base(p.Dir) + `) ` // or the program's name, capitalized
		}
		if len(p.GoFiles) > 0 && !regexp.MustCompile(want).MatchString(p.Doc) {
			t.Errorf("%s: its comment begins with %.60q and doesn't match %s", p.ImportPath, p.Doc, want)
		}
	}
}

// A package is named after what it holds.
func TestPackageNames(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib"}
	for _, p := range packages(t, "linux") {
		if slices.Contains(empty, filepath.Base(p.ImportPath)) {
			t.Errorf("%s is named after nothing", p.ImportPath)
		}
	}
}

// What is said goes to the screens that a command was given; packages return values and errors.
func TestOutput(t *testing.T) {
	for _, p := range packages(t, "linux") {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		if !strings.HasPrefix(rel, "internal/") && !strings.HasPrefix(rel, "cmd/") {
			continue
		}
		for _, name := range p.GoFiles {
			noOutput(t, filepath.Join(p.Dir, name))
		}
	}
}

func noOutput(t *testing.T, path string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	childtest.Must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := s.X.(*ast.Ident)
		if !ok || pkg.Obj != nil {
			return true
		}
		switch pkg.Name + "." + s.Sel.Name {
		case "fmt.Print", "fmt.Printf", "fmt.Println", "log.Print", "log.Printf", "log.Println", "log.Fatal", "log.Fatalf":
			t.Errorf("%s: %s.%s: write to the screen that the command was given", set.Position(n.Pos()), pkg.Name, s.Sel.Name)
		}
		return true
	})
}

// The text of the project speaks of the project, not of the machine that somebody wrote it on.
func TestNoPlaces(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("needs git and a repository: ", err)
	}
	// Written with brackets so that this line doesn't find itself.
	places := regexp.MustCompile(`(^|[\s"'(=:])/[w]ork/|[p]lan\.md|[p]roxy\.golang\.org|[d]eb\.debian\.org`)
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted, not yet committed
		}
		for i, line := range strings.Split(string(text), "\n") {
			if places.MatchString(line) {
				t.Errorf("%s:%d: %s", name, i+1, line)
			}
		}
	}
}
