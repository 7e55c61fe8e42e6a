//go:build linux

package net

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
)

var must = childtest.Must

// inNamespaces names the variable with the folder of the test process that runs in separate namespaces.
const inNamespaces = "TOOLGUARD_TEST_APART"

// binary is toolguard as it is built for users.
var binary string

// missing is the reason why these tests can't run here; "": they can.
var missing string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if filepath.Base(os.Args[0]) == "get" {
		return get(os.Args[1])
	}
	if os.Geteuid() != 0 {
		missing = "root"
		return m.Run()
	}
	if dir := os.Getenv(inNamespaces); dir != "" {
		binary = filepath.Join(os.Getenv("TOOLGUARD_BUILT"), "toolguard")
		if out, _ := exec.Command(binary, "doctor", "--verbose").Output(); !regexp.MustCompile(`(?m)^\s*yes +network programs`).Match(out) {
			missing = "the requirements that doctor names for the network"
			return m.Run()
		}
		if err := makeInternet(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if realInternet != nil {
			defer os.RemoveAll(realInternet.dir)
		}
		unix.Umask(0o077) // toolguard must set the mode of files for other users itself
		return m.Run()
	}
	return childtest.WithPrograms(runApart, "toolguard", "toolguardd")
}

// runApart runs the tests in namespaces of their own, with a folder for their files.
func runApart(built string) int {
	dir, err := os.MkdirTemp("", "net-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespaces+"="+dir, "TOOLGUARD_BUILT="+built)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		return 1
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// The public addresses. All of them lead to this machine.
const (
	allowedIP  = "93.184.215.1"
	deniedIP   = "93.184.215.2"
	databaseIP = "93.184.215.3"
	rangeIP    = "93.184.216.7"
	allowed6   = "2a00:1450::1"
	allowedBy6 = "64:ff9b::5db8:d701" // by NAT64
	tunnel6    = "2002:5db8:d701::1"  // and by 6to4
)

// zone has the names of the name server.
var zone = nettest.Names{
	"allowed.test":  {allowedIP, allowed6},
	"api.test":      {allowedIP},
	"denied.test":   {deniedIP},
	"database.test": {databaseIP},
	"inside.test":   {"10.9.8.7"},
	// of testdata/semantics.txt
	"api.github.com": {allowedIP}, "api.github.com.evil.com": {deniedIP}, "xn--mnchen-3ya.de": {allowedIP}, "munchen.de": {deniedIP},
	"example.com": {allowedIP}, "a.example.com": {allowedIP}, "b.a.example.com": {deniedIP}, "c.a.example.com": {allowedIP},
	"anexample.com": {deniedIP},
}

// addrsOf returns the addresses of a host, which may be this machine.
func addrsOf(host string) []string {
	if host == "localhost" {
		return []string{"127.0.0.1", "::1"}
	}
	return append(slices.Clone(zone[host]), host)
}

// makeInternet makes this process's namespaces look like the internet.
func makeInternet(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	addrs := []string{allowedIP, deniedIP, databaseIP, rangeIP, "10.9.8.7", allowed6, allowedBy6, tunnel6}
	simulated := web.missing() != nil // without real servers
	if simulated {
		addrs = append(addrs, nameIP)
	}
	errs := []error{nettest.LocalAddresses(addrs...)}
	ca, err := nettest.NewAuthority()
	if err != nil {
		return err
	}
	if simulated {
		errs = append(errs, serveNames(nameIP+":53"))
	} else {
		errs = append(errs, unix.Mount("none", "/dev/shm", "tmpfs", 0, "")) // squid leaves files there that prevent another start
		realInternet, err = newInternet(ca)
		errs = append(errs, err)
	}
	certs := filepath.Join(dir, "certs")
	errs = append(errs, os.Mkdir(certs, 0o755), os.WriteFile(filepath.Join(certs, "ca-certificates.crt"), ca.PEM, 0o644),
		os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver "+nameIP+"\n"), 0o644), os.MkdirAll("/etc/ssl/certs", 0o755))
	own, err := os.Hostname() // git resolves it
	errs = append(errs, err, os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 localhost "+own+" machine.test\n10.9.8.7 intranet.test\n"), 0o644))
	for from, over := range map[string]string{"certs": "/etc/ssl/certs", "resolv.conf": "/etc/resolv.conf", "hosts": "/etc/hosts"} {
		if err := unix.Mount(filepath.Join(dir, from), over, "", unix.MS_BIND, ""); err != nil {
			errs = append(errs, fmt.Errorf("mount over %s: %w", over, err))
		}
	}
	errs = append(errs, serveWeb(ca), nettest.Echo("tcp", ":5432"), nettest.Echo("tcp", ":22"), nettest.Echo("tcp", ":9418"),
		nettest.Echo("udp", databaseIP+":9999"), nettest.Echo("udp", allowedIP+":9999"), nettest.Echo("udp", deniedIP+":9999"))
	return errors.Join(errs...)
}
