package netname

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"github.com/toolguard/toolguard/internal/childtest"
)

var updateSuffixes = flag.Bool("update", false, "write public_suffix.txt again from the module golang.org/x/net")

const suffixHeader = `// The rules of the Public Suffix List, https://publicsuffix.org/list, as golang.org/x/net has them. They are subject to
// the Mozilla Public License, v. 2.0: https://mozilla.org/MPL/2.0/. Written by go generate.
`

// The list is that of the module's version in use, sorted.
func TestPublicSuffixes(t *testing.T) {
	rules := slices.Sorted(slices.Values(moduleRules(t)))
	if len(rules) < 5000 {
		t.Fatalf("the module has only %d rules", len(rules))
	}
	want := []byte(suffixHeader + strings.Join(rules, "\n") + "\n")
	if *updateSuffixes {
		childtest.Must(t, os.WriteFile("public_suffix.txt", want, 0o644))
		return
	}
	if got, err := os.ReadFile("public_suffix.txt"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("public_suffix.txt is out of date: run go generate (%v)", err)
	}
}

// moduleRules are the rules with which the module tests its own, packed table.
func moduleRules(t *testing.T) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	childtest.Must(t, err)
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "publicsuffix/table_test.go"), nil, 0)
	childtest.Must(t, err)
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "rules" {
			return true
		}
		for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
			s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
			childtest.Must(t, err)
			out = append(out, s)
		}
		return false
	})
	return out
}

// The answers are those of package publicsuffix, for each rule, above it, beneath it and next to it; but a top-level domain
// is always a public suffix, even without a rule of its own.
func TestIsPublicSuffix(t *testing.T) {
	rules := strings.Fields(strings.TrimPrefix(publicSuffixes, suffixHeader))
	top := map[string]bool{}
	for _, rule := range rules {
		top[rule[strings.LastIndexByte(rule, '.')+1:]] = true
	}
	for i, rule := range rules {
		if plain := strings.Trim(rule, "!*") == rule; plain && i%8 != 0 {
			continue // a part of the plain ones is enough
		}
		rule = strings.TrimPrefix(rule, "!")
		_, above, _ := strings.Cut(rule, ".")
		for _, domain := range []string{strings.Replace(rule, "*", "x", 1), strings.TrimPrefix(rule, "*."), above, "x." + strings.TrimPrefix(rule, "*."), "xy" + rule[1:]} {
			if domain == "" || strings.Contains(domain, "*") {
				continue
			}
			s, icann := publicsuffix.PublicSuffix(domain)
			if want := s == domain && (icann || strings.Contains(s, ".")) || top[domain]; IsPublicSuffix(domain) != want {
				t.Errorf("%s: %v, want %v", domain, !want, want)
			}
		}
	}
	for domain, want := range map[string]bool{"": false, "com": true, "example.com": false, "localdomain": false, "co.uk": true, "github.io": true, "ck": true, "za": true, "x.ck": true, "www.ck": false} {
		if IsPublicSuffix(domain) != want {
			t.Errorf("%q: %v", domain, !want)
		}
	}
}
