package seccomp

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

var update = flag.Bool("update", false, "regenerate table_gen.go from go-seccomp-bpf's tables")

// TestTables checks that table_gen.go matches go-seccomp-bpf's tables.
func TestTables(t *testing.T) {
	if *update {
		must(t, os.WriteFile("table_gen.go", tableText(t), 0o644))
		t.Log("table_gen.go is written: run the test again without -update")
		return
	}
	if got, err := os.ReadFile("table_gen.go"); err != nil || !bytes.Equal(got, tableText(t)) {
		t.Errorf("table_gen.go is out of date: run go generate (%v)", err)
	}
	for _, a := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.I386, arch.ARM, arch.X32} {
		sameNames(t, a)
	}
	sameNumbers(t, arch.X86_64, amd64)
	sameNumbers(t, arch.AARCH64, arm64)
}

// sameNames compares the names of all numbers that a table has, and of those around them.
func sameNames(t *testing.T, a *arch.Info) {
	t.Helper()
	compare := func(nr int) {
		want := a.SyscallNumbers[nr]
		for _, n := range newer {
			if want == "" && n.nr == nr && a != arch.X32 {
				want = n.name
			}
		}
		if got := Name(uint32(a.ID), nr|a.SeccompMask); got != want {
			t.Errorf("%s: %d is %q, want %q", a.Name, nr, got, want)
		}
	}
	for nr := range a.SyscallNumbers {
		compare(nr)
	}
	for nr := range 1000 {
		if nr != 0 || a != arch.X32 {
			compare(nr)
		}
	}
}

// sameNumbers compares the numbers of all names that any table has.
func sameNumbers(t *testing.T, a *arch.Info, m machine) {
	t.Helper()
	for _, other := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.I386, arch.ARM, arch.X32} {
		for name := range other.SyscallNames {
			want, ok := a.SyscallNames[name]
			got, has := m.number(name)
			if has != ok || ok && got != want {
				t.Errorf("%s: %s is %d (%v), want %d (%v)", a.Name, name, got, has, want, ok)
			}
			_, x86 := arch.X86_64.SyscallNames[name]
			_, arm := arch.AARCH64.SyscallNames[name]
			if known(name) != (x86 || arm) {
				t.Errorf("known(%q) = %v", name, known(name))
			}
		}
	}
}

// tableText is the text of table_gen.go.
func tableText(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	b.WriteString("// Code generated from the tables of go-seccomp-bpf by go generate; DO NOT EDIT.\n\npackage seccomp\n\n" +
		"// calls are the system calls of the machines that filters are made for, by name.\nvar calls = [...]named{\n")
	all := maps.Clone(arch.X86_64.SyscallNames)
	maps.Copy(all, arch.AARCH64.SyscallNames)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "{%q, [...]int16{%d, %d}},\n", name, numberIn(arch.X86_64, name), numberIn(arch.AARCH64, name))
	}
	b.WriteString("}\n")
	for _, a := range []*arch.Info{arch.I386, arch.ARM, arch.X32} {
		fmt.Fprintf(&b, "\n// calls%s are the system calls of %s, by number.\nvar calls%[1]s = [...]numbered{\n", strings.ToUpper(a.Name), a.Name)
		for _, nr := range slices.SortedFunc(maps.Keys(a.SyscallNumbers), cmp.Compare[int]) {
			fmt.Fprintf(&b, "{%d, %q},\n", nr, a.SyscallNumbers[nr])
		}
		b.WriteString("}\n")
	}
	out, err := format.Source([]byte(b.String()))
	must(t, err)
	return out
}

func numberIn(a *arch.Info, name string) int {
	if nr, ok := a.SyscallNames[name]; ok {
		return nr
	}
	return -1
}
