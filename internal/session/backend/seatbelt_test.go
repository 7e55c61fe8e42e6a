package backend

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Every rule and limit has one row, hosts are enforced where there is egress, and limits that need control groups nowhere.
func TestSeatbeltReport(t *testing.T) {
	dir := t.TempDir()
	sandboxExec, egress := filepath.Join(dir, "sandbox-exec"), filepath.Join(dir, EgressProgram)
	childtest.Must(t, os.WriteFile(sandboxExec, nil, 0o755))
	l := policy.SourceLayer{
		Authority: policy.Session, Env: []policy.EnvRule{{Name: "HOME", Read: true}}, Net: []policy.NetRule{{Host: "example.com", Allow: true}},
		FS: []policy.FSRule{{Path: "/", Caps: policy.Read}},
	}
	c := policytest.CompileSource(t, &policy.Source{
		Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{l},
		Limits: policy.Limits{Memory: policy.Bytes{N: 1}, Pids: policy.Count{N: 1}, OpenFiles: policy.Count{N: 64}, FileSize: policy.Bytes{N: 1}, WallTime: policy.Span{D: time.Hour}},
		Audit:  policy.Audit{Exec: true},
	}, hostfs.Machine{})
	for program, host := range map[string]policy.Status{"": policy.NotEnforceable, egress: policy.Enforced} {
		b, err := Seatbelt(Mac{SandboxExec: sandboxExec, Egress: program, Home: "/"})
		childtest.Must(t, err)
		r, err := ReportWith(&b, c, "seatbelt", "none", nil)
		childtest.Must(t, err)
		want := map[string]policy.Status{
			"fs.1": policy.Enforced, "net.1": host, "env.1": policy.Enforced, "limits.memory": policy.NotEnforceable, "limits.pids": policy.NotEnforceable,
			"limits.open_files": policy.Enforced, "limits.file_size": policy.Enforced, "limits.wall_time": policy.Enforced, policy.AuditID: policy.NotEnforceable,
		}
		seen := map[string]bool{}
		for _, row := range r.Rows {
			status, known := want[row.ID]
			if known && row.Status != status || seen[row.ID] {
				t.Errorf("egress %q: %+v (again %v)", program, row, seen[row.ID])
			}
			if row.Status != policy.Enforced && row.Why == "" {
				t.Errorf("%+v has no reason", row)
			}
			seen[row.ID] = true
		}
		for id := range want {
			if !seen[id] {
				t.Errorf("egress %q: no row for %s", program, id)
			}
		}
		if !slices.ContainsFunc(r.Blocking, func(row policy.Enforceability) bool {
			return row.ID == "limits.pids" && strings.Contains(row.Why, "macOS")
		}) {
			t.Errorf("%+v", r.Blocking)
		}
	}
	if _, err := Seatbelt(Mac{SandboxExec: filepath.Join(dir, "none")}); err == nil {
		t.Error("no sandbox-exec, and no error")
	}
}
