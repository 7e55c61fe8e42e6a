package denials

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin/oslog"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// TestDescribeSandbox: each line about a denial becomes an event by the rule that decides, with the grant that would allow it.
func TestDescribeSandbox(t *testing.T) {
	ws := childtest.TempDir(t)
	in := func(s string) string { return strings.ReplaceAll(s, "/ws", ws) }
	at := func(line int) policy.Position { return policy.Position{File: "p.toml", Line: line, Col: 1} }
	l := policy.SourceLayer{
		Authority: policy.Session,
		FS:        []policy.FSRule{{Path: ws, Caps: policy.Read | policy.Create, Position: at(1)}, {Path: ws + "/a b", Position: at(2)}},
		Net:       []policy.NetRule{{Host: "example.com", Allow: true, Position: at(3)}, {Host: "10.0.0.1", Port: 443, Position: at(4)}, {Host: "10.0.0.2", Port: 443, Allow: true, Position: at(5)}},
	}
	c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: ws, Home: "/", Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
	for _, x := range []struct {
		operation, target string
		want              string // resource capability target reason rule
		grants            string // a part of the suggestion; "": there is none
		extra             string // a part of why
	}{
		{"file-read-data", "/ws/a b/c", "fs read /ws/a b/c rule_denies fs.2", "read = true", ""},
		{"file-write-create", "/ws/a b", "fs create /ws/a b rule_denies fs.2", "create = true", ""},
		{"file-write-unlink", "/ws/x", "fs delete /ws/x rule_denies fs.1", "delete = true", ""},
		{"file-write-mode", "/ws/x", "fs update /ws/x rule_denies fs.1", "update = true", ""},
		{"process-exec*", "/ws/x", "fs execute /ws/x rule_denies fs.1", "execute = true", ""},
		{"file-read-data", "/elsewhere/x", "fs read /elsewhere/x outside_workspace ", "read = true", ""},
		{"file-read-data", "/System/Volumes/Data/elsewhere/x", "fs read /elsewhere/x outside_workspace ", "read = true", ""},
		{"file-read-data", "/ws/x", "fs read /ws/x engine_error ", "", "stricter"},
		{"file-read-data", "x", "fs read x path_unresolved ", "", ""},
		{"file-read-data", "", "fs read  path_unresolved ", "", ""},
		{"network-outbound", "/ws/sock", "fs update /ws/sock rule_denies fs.1", "update = true", ""},
		{"network-bind", "/ws/a b/sock", "fs create /ws/a b/sock rule_denies fs.2", "create = true", ""},
		{"network-outbound", "10.0.0.1:443", "net connect tcp://10.0.0.1:443 rule_denies net.2", "host = ", ""},
		{"network-outbound", "10.0.0.2:443", "net connect tcp://10.0.0.2:443 engine_error ", "", "HTTPS_PROXY"},
		{"network-outbound", "10.0.0.3:443", "net connect tcp://10.0.0.3:443 host_not_listed ", "host = ", ""},
		{"network-outbound", "*:443", "net connect *:443 host_not_listed ", "", "HTTPS_PROXY"},
		{"network-outbound", "", "net connect  host_not_listed ", "", "HTTPS_PROXY"},
		{"network-bind", "localhost:3000", "net listen tcp://localhost:3000 host_not_listed ", "listen", ""},
		{"mach-lookup", "com.apple.SecurityServer", "always mach-lookup com.apple.SecurityServer syscall_denied ", "", "always on"},
		{"sysctl-read", "kern.procargs2", "always sysctl-read kern.procargs2 syscall_denied ", "", "always on"},
	} {
		e := DescribeSandbox(c, oslog.Denial{Comm: "cat", PID: 9, Operation: x.operation, Target: in(x.target), Count: 3})
		got := strings.Join([]string{e.Resource, e.Capability, e.Target, e.Reason, e.Rule}, " ")
		if got != in(x.want) || (e.Suggest == "") != (x.grants == "") || !strings.Contains(e.Suggest, x.grants) || !strings.Contains(e.Extra["why"], x.extra) {
			t.Errorf("%s %s:\n got %s\nwant %s\nsuggests %q, %q", x.operation, x.target, got, x.want, e.Suggest, e.Extra)
		}
		if e.Kind != event.Denial || e.Mechanism != "seatbelt:"+x.operation || e.Count != 3 || e.Process[0].PID != 9 || e.Extra["evidence"] != "oslog" || e.Extra["completeness"] != "best_effort" {
			t.Errorf("%+v", e)
		}
		if (e.Rule == "") != (e.Place == "") {
			t.Errorf("%s %s: rule %q at %q", x.operation, x.target, e.Rule, e.Place)
		}
	}
}

// What every program tries, and what other authorities of the machine deny, isn't a denial of the session.
func TestSandboxCollector(t *testing.T) {
	ws := childtest.TempDir(t)
	c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: ws, Home: "/", Layers: []policy.SourceLayer{{Authority: policy.Session, FS: []policy.FSRule{{Path: ws}}}}}, hostfs.Machine{})
	d := &SandboxCollector{Session: 7, Policy: c, Tool: "tool"}
	d.Denied(oslog.Denial{PID: 1, Comm: "a", Operation: "mach-lookup", Target: "com.apple.diagnosticd", Count: 1})
	d.Denied(oslog.Denial{PID: 1, Comm: "a", Operation: "file-read-data", Target: ws + "/x", Count: 1, System: true})
	if s := d.Summary(); s.Total != 0 {
		t.Errorf("%+v", s)
	}
	d.Visible(nil)
	for range 2 {
		d.Denied(oslog.Denial{PID: 1, Comm: "a", Operation: "file-read-data", Target: ws + "/x", Count: 2})
	}
	d.Lost("egress", 5, "it died")
	s := d.Summary()
	if s.Total != 4 || len(s.Denials) != 1 || s.Denials[0].Count != 4 || !s.Visible || s.Lost != 5 || s.WhyLost != "it died" {
		t.Errorf("%+v", s)
	}
	if e := s.Denials[0]; e.Session != "0000000000000007" || e.Tool != "tool" || e.Policy != "test" {
		t.Errorf("%+v", e)
	}
}
