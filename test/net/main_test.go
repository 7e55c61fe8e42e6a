//go:build linux

package net

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// apart marks the test that runs in namespaces of its own, and names its folder.
const apart = "TOOLGUARD_TEST_APART"

// binary is toolguard as it is built for users.
var binary string

// missing is what keeps these tests from being run here; "": nothing.
var missing string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Geteuid() != 0 {
		missing = "root"
		return m.Run()
	}
	if dir := os.Getenv(apart); dir != "" {
		binary = filepath.Join(dir, "toolguard")
		if built := os.Getenv("TOOLGUARD_BUILT"); built != "" {
			binary = filepath.Join(built, "toolguard")
		}
		if out, _ := exec.Command(binary, "doctor").Output(); !regexp.MustCompile(`(?m)^\s*yes +network programs`).Match(out) {
			missing = "what doctor says is needed for the network"
			return m.Run()
		}
		if err := makeInternet(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		unix.Umask(0o077) // what others are to read, toolguard must say
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "net-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if os.Getenv("TOOLGUARD_BUILT") == "" {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir, "../../cmd/toolguard", "../../cmd/toolguardd")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), apart+"="+dir)
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

// The public addresses. All of them are this machine's own here.
const (
	allowedIP  = "93.184.215.1"
	deniedIP   = "93.184.215.2"
	databaseIP = "93.184.215.3"
	rangeIP    = "93.184.216.7"
	allowed6   = "2a00:1450::1"
)

// zone is what the name server knows.
var zone = map[string][]string{
	"allowed.test":  {allowedIP, allowed6},
	"api.test":      {allowedIP},
	"denied.test":   {deniedIP},
	"database.test": {databaseIP},
	"inside.test":   {"10.9.8.7"},
}

// makeInternet has this process's namespaces look as if the internet were there.
func makeInternet(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	errs := []error{up("lo")}
	for i, a := range []string{allowedIP, deniedIP, databaseIP, rangeIP, "10.9.8.7"} {
		errs = append(errs, address4(fmt.Sprintf("lo:%d", i+1), a))
	}
	errs = append(errs, address6("lo", allowed6))
	for range 200 { // an IPv6 address is there a moment later
		if l, err := net.Listen("tcp", "["+allowed6+"]:0"); err == nil {
			_ = l.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	certs := filepath.Join(dir, "certs")
	errs = append(errs, os.Mkdir(certs, 0o755), os.WriteFile(filepath.Join(certs, "ca-certificates.crt"), ca.pem, 0o644),
		os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 127.0.0.53\n"), 0o644), os.MkdirAll("/etc/ssl/certs", 0o755))
	for from, over := range map[string]string{"certs": "/etc/ssl/certs", "resolv.conf": "/etc/resolv.conf"} {
		if err := unix.Mount(filepath.Join(dir, from), over, "", unix.MS_BIND, ""); err != nil {
			errs = append(errs, fmt.Errorf("mount over %s: %w", over, err))
		}
	}
	errs = append(errs, serveNames("127.0.0.53:53"), serveWeb(ca), serveEcho("tcp", ":5432"),
		serveEcho("udp", databaseIP+":9999"), serveEcho("udp", deniedIP+":9999"))
	return errors.Join(errs...)
}

func ioctl(family int, request uintptr, arg unsafe.Pointer) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func up(device string) error {
	r, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return ioctl(unix.AF_INET, unix.SIOCSIFFLAGS, unsafe.Pointer(r))
}

func address4(device, addr string) error {
	r, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	a := netip.MustParseAddr(addr).As4()
	if err := r.SetInet4Addr(a[:]); err != nil {
		return err
	}
	return ioctl(unix.AF_INET, unix.SIOCSIFADDR, unsafe.Pointer(r))
}

func address6(device, addr string) error {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	r := struct { // struct in6_ifreq
		addr   [16]byte
		length uint32
		index  int32
	}{netip.MustParseAddr(addr).As16(), 128, int32(i.Index)}
	return ioctl(unix.AF_INET6, unix.SIOCSIFADDR, unsafe.Pointer(&r))
}
