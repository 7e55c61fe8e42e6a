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
		if !strings.HasPrefix(p.ImportPath, module+"/bin/") { // built or tried locally; not in the repository
			all = append(all, p)
		}
	}
	if len(all) < 5 {
		t.Fatalf("go list names only %d packages", len(all))
	}
	return all
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

// Every start of toolguard initialises the packages of its program, and these take 0.6 ms.
func TestLightStart(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		all := deps(t, "toolguard", goos)
		for _, slow := range []string{
			"net/http", "crypto/tls", "crypto/x509", "crypto/ed25519", "github.com/elastic/go-seccomp-bpf", "github.com/containerd/cgroups/v3/cgroup2",
		} {
			if slices.Contains(all, slow) {
				t.Errorf("cmd/toolguard (%s) links %s", goos, slow)
			}
		}
	}
}

// A list has every package that a program links from another module, so that a review sees each change. Programs that run as root link
// what root's work takes; talking to collectors is none of it.
func TestDependencies(t *testing.T) {
	for program, ships := range map[string]bool{"toolguard": false, "toolguardd": false, "toolguard-ship": true} {
		all := deps(t, program, "linux")
		for _, remote := range []string{module + "/internal/ship", "github.com/nats-io/nats.go"} {
			if slices.Contains(all, remote) != ships {
				t.Errorf("cmd/%s links %s: %t", program, remote, !ships)
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

// The text of the project speaks of the project, not of the machine that it was written on.
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
