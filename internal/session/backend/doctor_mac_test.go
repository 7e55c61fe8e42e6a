package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
)

// A Mac is a folder with the programs, and what the probes return.
func TestDoctorMac(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sandbox-exec", "log", EgressProgram} {
		childtest.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	all := Mac{SandboxExec: filepath.Join(dir, "sandbox-exec"), Egress: filepath.Join(dir, EgressProgram)}
	for _, x := range []struct {
		name   string
		mac    Mac
		log    string
		canary error
		probes string // results in order: macOS, sandbox-exec, the sandbox denies, no outer sandbox, egress, denial events
		auto   string
		offers string
		why    string
	}{
		{"everything", all, "log", nil, "[yes yes yes yes yes yes]", "seatbelt", "[true true true false true]", ""},
		{"no egress", Mac{SandboxExec: all.SandboxExec}, "log", nil, "[yes yes yes yes no yes]", "seatbelt", "[true true false false true]", ""},
		{"no log", all, "none", nil, "[yes yes yes yes yes no]", "seatbelt", "[true true true false false]", ""},
		{"an outer sandbox", all, "log", fmt.Errorf("x: %w", sandboxexec.ErrOuter), "[yes yes unknown no yes no]", "", "[false false false false false]", "outer sandbox"},
		{"it doesn't deny", all, "log", errors.New("it read the file"), "[yes yes no yes yes yes]", "", "[false false false false false]", "it read the file"},
		{"no sandbox-exec", Mac{SandboxExec: dir + "/none"}, "log", nil, "[yes no no unknown no yes]", "", "[false false false false false]", "which this machine doesn't have"},
	} {
		m := doctorMac(x.mac, macProbes{
			version: func() (string, error) { return "15.1", nil }, canary: func() error { return x.canary }, log: filepath.Join(dir, x.log),
		})
		var results []Tri
		for _, p := range m.Probes {
			if results = append(results, p.Result); p.Result == No && p.Fix == "" && !strings.Contains(p.Detail, "doesn't have") {
				t.Errorf("%s: %+v has no fix", x.name, p)
			}
		}
		var offers []bool
		for _, o := range m.Offers() {
			offers = append(offers, o.Yes)
		}
		b := m.Backends[0]
		if fmt.Sprint(results) != x.probes || m.Auto != x.auto || fmt.Sprint(offers) != x.offers || b.Name != "seatbelt" || b.Available != (x.auto != "") || !strings.Contains(b.Why, x.why) {
			t.Errorf("%s: %v %v, %q, %+v", x.name, results, offers, m.Auto, b)
		}
		if b.Available && len(b.Gaps) == 0 {
			t.Errorf("%s: no gaps", x.name)
		}
	}
	if !strings.HasPrefix(doctorMac(all, macProbes{version: func() (string, error) { return "15.1", nil }, canary: func() error { return nil }}).Probes[0].Detail, "15.1 ") {
		t.Error("the version is missing")
	}
}
