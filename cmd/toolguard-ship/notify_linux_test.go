package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/desktop"
)

// TestMain is also the program itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "notify" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// shown is a notice as a desktop gets it.
type shown struct {
	app, icon, summary, body string
	replaces                 uint32
	actions                  []string
}

// service is org.freedesktop.Notifications.
type service chan shown

func (s service) Notify(app string, replaces uint32, icon, summary, body string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	s <- shown{app, icon, summary, body, replaces, actions}
	return 7, nil
}

// bus starts a message bus of the test's own.
func bus(t *testing.T) (address string) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon")
	}
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address")
	out, err := cmd.StdoutPipe()
	childtest.Must(t, err)
	childtest.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	childtest.Must(t, err)
	return strings.TrimSpace(line)
}

// TestNotify: the program, with its own system call filter, shows notices on a real bus, and ends with its input.
func TestNotify(t *testing.T) {
	address := bus(t)
	conn, err := dbus.Connect(address)
	childtest.Must(t, err)
	defer conn.Close()
	notices := make(service, 100)
	childtest.Must(t, conn.Export(notices, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"))
	if reply, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	cmd := exec.Command("/proc/self/exe", "notify")
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS="+address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	childtest.Must(t, err)
	childtest.Must(t, cmd.Start())
	enc := json.NewEncoder(in)
	childtest.Must(t, enc.Encode(desktop.Notice{Summary: "one", Body: `<a href="x">&'`}))
	next := func() shown {
		select {
		case n := <-notices:
			return n
		case <-time.After(30 * time.Second):
			t.Fatal("no notice")
		}
		return shown{}
	}
	if n := next(); n.summary != "one" || n.body != "&lt;a href=&quot;x&quot;&gt;&amp;&#39;" || n.replaces != 0 || len(n.actions) != 0 {
		t.Errorf("%+v", n)
	}
	for range 50 { // a flood shows as one
		childtest.Must(t, enc.Encode(desktop.Notice{Summary: "many"}))
	}
	childtest.Must(t, enc.Encode(desktop.Notice{Summary: "last"}))
	if n := next(); n.summary != "last" && n.summary != "many" || n.replaces != 7 {
		t.Errorf("%+v", n)
	}
	in.Close()
	childtest.Must(t, cmd.Wait())
	if n := len(notices); n > 2 {
		t.Errorf("%d more notices", n)
	}
}

// TestNotifyWithoutBus: a failure is an exit status, for nobody to see.
func TestNotifyWithoutBus(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "notify")
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=unix:path="+t.TempDir()+"/none")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "connect to the session bus") {
		t.Errorf("%v: %s", err, out)
	}
}
