package seatbelt

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// profileOf renders a policy without rules and with this default for every resource.
func profileOf(t *testing.T, action policy.DefaultAction) *sbpltest.Profile {
	t.Helper()
	l := policy.SourceLayer{}
	for i := range l.Defaults {
		l.Defaults[i] = action
	}
	src := policytest.Source(l)
	src.Workspace, src.Home = home+"/w", home
	w, err := newWorld(t, src, mac(nil), true, 0)
	childtest.Must(t, err)
	return w.profile
}

// never are operations that no policy can grant: they leave the sandbox, or change the machine.
var never = []struct {
	op string
	at sbpltest.Target
}{
	{"appleevent-send", sbpltest.Target{}},
	{"boot-arg-set", sbpltest.Target{}},
	{"file-chroot", sbpltest.Target{Path: home + "/w", Type: "DIRECTORY"}},
	{"file-graft", sbpltest.Target{Path: home + "/w", Type: "DIRECTORY"}},
	{"file-issue-extension", sbpltest.Target{Path: home + "/w/a", Type: "REGULAR-FILE"}},
	{"file-ioctl", sbpltest.Target{Path: "/dev/ttys001", Type: "CHARACTER-DEVICE", Name: "TIOCSTI"}},
	{"file-mknod", sbpltest.Target{Path: home + "/w/a"}},
	{"file-mount", sbpltest.Target{Path: home + "/w", Type: "DIRECTORY"}},
	{"file-mount-update", sbpltest.Target{Path: home + "/w", Type: "DIRECTORY"}},
	{"file-ungraft", sbpltest.Target{Path: home + "/w", Type: "DIRECTORY"}},
	{"file-unmount", sbpltest.Target{Path: home + "/w", Type: "DIRECTORY"}},
	{"file-write-setugid", sbpltest.Target{Path: home + "/w/a", Type: "REGULAR-FILE"}},
	{"fs-snapshot-create", sbpltest.Target{Path: "/", Type: "DIRECTORY"}},
	{"fs-snapshot-delete", sbpltest.Target{Path: "/", Type: "DIRECTORY"}},
	{"fs-snapshot-mount", sbpltest.Target{Path: "/", Type: "DIRECTORY"}},
	{"fs-snapshot-revert", sbpltest.Target{Path: "/", Type: "DIRECTORY"}},
	{"generic-issue-extension", sbpltest.Target{}},
	{"hid-control", sbpltest.Target{}},
	{"iokit-get-properties", sbpltest.Target{}},
	{"job-creation", sbpltest.Target{}},
	{"lsopen", sbpltest.Target{}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.SecurityServer"}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.coreservices.launchservicesd"}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.coreservices.appleevents"}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.pasteboard.1"}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.securityd.xpc"}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.security.agent"}},
	{"mach-lookup", sbpltest.Target{Name: "com.apple.xpc.launchd.domain.user.501"}},
	{"mach-priv-host-port", sbpltest.Target{}},
	{"mach-priv-task-port", sbpltest.Target{}},
	{"mach-register", sbpltest.Target{Name: "com.example"}},
	{"nvram-set", sbpltest.Target{}},
	{"nvram-delete", sbpltest.Target{}},
	{"process-info-pidinfo", sbpltest.Target{Process: "others"}},
	{"process-info-setcontrol", sbpltest.Target{Process: "others"}},
	{"signal", sbpltest.Target{Process: "others"}},
	{"sysctl-write", sbpltest.Target{Name: "kern.hostname"}},
	{"system-kext-load", sbpltest.Target{}},
	{"system-reboot", sbpltest.Target{}},
	{"system-set-time", sbpltest.Target{}},
	{"system-socket", sbpltest.Target{Name: "AF_ROUTE"}},
	{"system-socket", sbpltest.Target{Name: "AF_SYSTEM"}},
}

func TestNeverGranted(t *testing.T) {
	for _, action := range []policy.DefaultAction{policy.Deny, policy.Allow} {
		p := profileOf(t, action)
		for _, n := range never {
			for _, m := range sbpltest.Models() {
				if p.Allows(m, n.op, n.at) {
					t.Errorf("by default %v: %s %+v is allowed (%+v)", action, n.op, n.at, m)
					break
				}
			}
		}
	}
}

// A policy that grants nothing still lets a program start, and nothing else.
func TestBase(t *testing.T) {
	p := profileOf(t, policy.Deny)
	for _, m := range sbpltest.Models() {
		for _, path := range []string{home, home + "/w", home + "/w/a", home + "/.ssh/id_rsa", "/private/etc/master.passwd", "/private/tmp/a", "/private/var/db/x", "/Volumes/x/y", "/opt/homebrew/bin/x", "/usr/bin/git"} {
			for _, kind := range []string{"", "REGULAR-FILE", "DIRECTORY", "SOCKET"} {
				at := sbpltest.Target{Path: path, Type: kind}
				for _, c := range capabilities {
					for _, op := range slices.Concat(c.needed, c.excess, []string{"file-link", "file-clone", "network-outbound", "network-bind"}) {
						if p.Allows(m, op, at) {
							t.Fatalf("%s %+v is allowed (%+v)", op, at, m)
						}
					}
				}
			}
		}
		for _, addr := range []string{"127.0.0.1:80", "[::1]:8080", "192.0.2.1:443"} {
			for _, op := range []string{"network-outbound", "network-bind", "network-inbound"} {
				if p.Allows(m, op, sbpltest.Target{Protocol: "tcp", Addr: netip.MustParseAddrPort(addr)}) {
					t.Errorf("%s %s is allowed", op, addr)
				}
			}
		}
	}
	for _, op := range []string{"process-fork"} {
		if !p.Allows(sbpltest.Model{}, op, sbpltest.Target{}) {
			t.Errorf("%s is denied", op)
		}
	}
	// Every program aborts before its first instruction without it.
	if !p.Allows(sbpltest.Model{}, "file-read-data", sbpltest.Target{Path: "/", Type: "DIRECTORY"}) {
		t.Error("the root can't be listed")
	}
	if !p.Allows(sbpltest.Model{}, "process-info-pidinfo", sbpltest.Target{Process: "self"}) {
		t.Error("a process can't ask about itself: bash aborts")
	}
}
