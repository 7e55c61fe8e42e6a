//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemontest"
)

// dev is an ordinary user of the machine.
const dev = 1000

// sandbox returns the command line of argv in a PID namespace of its own, with or without toolguardd's folder.
type sandbox func(j *job, uid uint32, folder bool, argv []string) []string

// In containers and sandboxes commands run under toolguardd if its folder is mounted, and otherwise under Landlock, with a warning. Both deny
// reading a file that can be read there without them, and toolguardd reports it.
func TestSandboxes(t *testing.T) {
	s := share(t)
	const mount = "in a container, mount all of /run/toolguard"
	type row struct {
		name   string
		in     sandbox
		uid    uint32
		folder bool
		flags  []string
		net    string // what the command tries first
		host   bool   // the host has a policy
		status int
		says   []string // texts in the warning; none: toolguardd owns the session, and there is no warning
	}
	var rows []row
	for _, box := range []struct {
		name string
		in   sandbox
		uids []uint32
	}{
		{"unshare", unshared, []uint32{0, dev}},
		{"unshare, root of a user namespace", unsharedAsRoot, []uint32{dev}},
		{"bwrap", bubblewrapped, []uint32{0, dev}},
		{"runc", contained, []uint32{0, dev}},
	} {
		for _, uid := range box.uids {
			says := []string{"landlock doesn't enforce protect", mount}
			if strings.HasPrefix(box.name, "unshare") && (uid == 0 || len(box.uids) == 1) { // root in a user namespace could load programs
				says[1] = "this is a PID namespace of its own"
			}
			rows = append(rows, row{box.name, box.in, uid, true, []string{"--limits", "pids=50"}, "", false, 7, nil}, row{box.name, box.in, uid, false, nil, "", false, 7, says})
		}
	}
	const connects = "for p in 9 10; do (exec 3<>/dev/tcp/127.0.0.1/$p) 2>&1 | grep -qi " // no server listens there
	rows = append(rows,
		row{"runc, network", contained, dev, true, nil, connects + `"$([ $p = 10 ] && echo refused || echo denied)" || exit 8; done;`, false, 7, nil},
		row{"bwrap, limits", bubblewrapped, dev, false, []string{"--limits", "pids=50"}, "", false, 125, []string{"limits.pids", mount}},
		row{"bwrap, host's policy", bubblewrapped, dev, true, nil, "", true, 125, []string{"host.fs.1", "another mount namespace"}})
	for _, x := range rows {
		t.Run(fmt.Sprintf("%s, user %d, folder %v", x.name, x.uid, x.folder), func(t *testing.T) {
			policy := work
			if x.net != "" {
				policy = netPolicy("host = \"127.0.0.1\"\nport = 10")
			}
			j := newJob(t, x.uid, policy+reach(), x.net+`read x <OUTSIDE && exit 5; echo ran >can; exit 7`, x.flags...)
			if x.host {
				hostDenies(t, j.outside)
			}
			j.setDaemon("auto")
			j.wrap(x.in(j, x.uid, x.folder, append([]string{"bash", "-c", "read x <" + j.outside + ` || exit 3; exec "$0" "$@"`}, j.Args...)))
			if got := j.start().status(); got != x.status {
				t.Errorf("exit status %d, want %d", got, x.status)
			}
			if _, err := os.Stat(j.workspace + "/can"); (err == nil) != (x.status == 7) {
				t.Errorf("the command ran: %v", err)
			}
			j.warnsOnce(x.says)
			eventually(t, "its denial is reported, once if toolguardd owns the session", func() bool {
				n := 0
				for _, e := range auditOf(t, s.state, "denial") {
					if e.Target == j.outside {
						n++
					}
				}
				return n == map[bool]int{true: 1}[x.says == nil]
			})
		})
	}
}

// setDaemon sets the job's --daemon flag, and removes --events.
func (j *job) setDaemon(daemon string) {
	j.Args[slices.Index(j.Args, "require")] = daemon
	j.Args = slices.DeleteFunc(j.Args, func(arg string) bool { return arg == "--events" || arg == j.events })
}

// warnsOnce fails unless toolguard has printed one warning with these texts; none: no warning.
func (j *job) warnsOnce(what []string) {
	j.t.Helper()
	said := j.out.String()
	if n := len(regexp.MustCompile("(?m)^toolguard: ").FindAllString(said, -1)); n != min(1, len(what)) {
		j.t.Errorf("it prints %d warnings: %s", n, said)
	}
	for _, want := range what {
		if !strings.Contains(said, want) {
			j.t.Errorf("it prints %s, without %q", said, want)
		}
	}
}

// A toolguardd in a PID namespace of its own reports that, at its start and to clients, and commands run without it.
func TestContainedDaemon(t *testing.T) {
	daemontest.Needs(t)
	endShared()
	const why = "run toolguardd outside of"
	log := &bytes.Buffer{}
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", built+"/toolguardd", "--state", t.TempDir())
	cmd.Stderr = log
	_ = os.Remove(socket)
	must(t, cmd.Start())
	stop := func() { daemontest.Stop(cmd, syscall.SIGKILL) }
	defer stop()
	eventually(t, "it answers", func() bool {
		var statusError *api.StatusError
		return errors.As((&api.Client{Socket: socket}).Do("GET", api.Status, nil, nil), &statusError)
	})
	must(t, os.Chmod(socket, 0o666))
	for daemon, x := range map[string]struct {
		status int
		says   []string
	}{
		"require": {125, []string{"--daemon require can't be met", why}},
		"auto":    {7, []string{"landlock doesn't enforce protect", why}},
	} {
		j := newJob(t, dev, work, `read x <OUTSIDE && exit 5; exit 7`)
		j.setDaemon(daemon)
		if got := j.start().status(); got != x.status {
			t.Errorf("--daemon %s: exit status %d, want %d", daemon, got, x.status)
		}
		j.warnsOnce(x.says)
	}
	stop()
	if !strings.Contains(log.String(), why) {
		t.Errorf("its log at the start: %s", log)
	}
}

// wrap replaces the job's command line.
func (j *job) wrap(argv []string) {
	j.t.Helper()
	path, err := exec.LookPath(argv[0])
	must(j.t, err)
	j.Path, j.Args = path, argv
}

const emptied = `mount -t tmpfs -o mode=755 none /run/toolguard && exec "$0" "$@"`

func unshared(_ *job, uid uint32, folder bool, argv []string) []string {
	own := []string{"unshare", "--pid", "--fork", "--mount-proc"}
	if uid != 0 {
		own = append(own, "--user", fmt.Sprint("--map-user=", uid), fmt.Sprint("--map-group=", uid))
	}
	argv = append(own, argv...)
	if folder {
		return argv
	}
	around := []string{"unshare", "--mount"}
	if uid != 0 {
		around = append(around, "--map-root-user")
	}
	return append(append(around, "sh", "-c", emptied), argv...)
}

func unsharedAsRoot(_ *job, _ uint32, folder bool, argv []string) []string {
	own := []string{"unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"}
	if !folder {
		own = append(own, "sh", "-c", emptied)
	}
	return append(own, argv...)
}

func bubblewrapped(j *job, _ uint32, folder bool, argv []string) []string {
	dir := filepath.Dir(j.workspace)
	args := []string{
		"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--bind", dir, dir, "--ro-bind", built, built,
	}
	if folder {
		args = append(args, "--ro-bind", "/run/toolguard", "/run/toolguard")
	}
	return append(append(args, "--"), argv...)
}

// contained returns runc's command line with Docker's configuration of a container: mounts, capabilities, and the system call filter.
func contained(j *job, uid uint32, folder bool, argv []string) []string {
	t := j.t
	bundle, err := os.MkdirTemp("", "bundle-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(bundle) })
	for _, dir := range []string{"usr", "etc", "proc", "sys", "dev", "tmp", "run"} {
		must(t, os.MkdirAll(bundle+"/rootfs/"+dir, 0o755))
	}
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		must(t, os.Symlink("usr/"+link, bundle+"/rootfs/"+link))
	}
	type object = map[string]any
	mount := func(kind, at, from string, options ...string) object {
		return object{"type": kind, "destination": at, "source": from, "options": options}
	}
	mounts := []object{
		mount("proc", "/proc", "proc", "nosuid", "noexec", "nodev"),
		mount("tmpfs", "/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("devpts", "/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
		mount("sysfs", "/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
		mount("cgroup", "/sys/fs/cgroup", "cgroup", "ro", "nosuid", "noexec", "nodev"),
		mount("tmpfs", "/tmp", "tmpfs", "mode=1777"),
	}
	for at, mode := range map[string]string{"/usr": "ro", "/etc": "ro", built: "ro", filepath.Dir(j.workspace): "rw"} {
		mounts = append(mounts, mount("bind", at, at, "rbind", mode))
	}
	if folder {
		mounts = append(mounts, mount("bind", "/run/toolguard", "/run/toolguard", "rbind", "ro"))
	}
	effective := dockerCapabilities
	if uid != 0 {
		effective = nil
	}
	var namespaces []object
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network", "cgroup"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	text, err := json.Marshal(object{
		"ociVersion": "1.0.2",
		"root":       object{"path": "rootfs"},
		"hostname":   "container",
		"mounts":     mounts,
		"process": object{
			"user": object{"uid": uid, "gid": uid}, "args": argv, "env": j.Env, "cwd": j.workspace,
			"capabilities": object{"bounding": dockerCapabilities, "effective": effective, "permitted": effective},
		},
		"linux": object{
			"namespaces": namespaces, "seccomp": dockerFilter(t),
			"maskedPaths":   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	})
	must(t, errors.Join(err, os.WriteFile(bundle+"/config.json", text, 0o644)))
	j.SysProcAttr = &syscall.SysProcAttr{}
	return []string{"runc", "run", "--bundle", bundle, filepath.Base(bundle)}
}

// dockerCapabilities are the default capabilities of root in a Docker container (oci/caps/defaults.go in its sources).
var dockerCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP",
	"CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// dockerFilter returns Docker's default filter for these capabilities and this architecture, since OCI profiles have no such conditions.
func dockerFilter(t *testing.T) any {
	t.Helper()
	type facts struct{ Arches, Caps []string }
	type rule struct {
		Names    []string `json:"names"`
		Action   string   `json:"action"`
		Args     []any    `json:"args,omitempty"`
		ErrnoRet *int     `json:"errnoRet,omitempty"`
		Includes facts    `json:"includes,omitzero"`
		Excludes facts    `json:"excludes,omitzero"`
	}
	var profile struct {
		DefaultAction string
		Syscalls      []rule
	}
	text, err := os.ReadFile("/etc/docker/seccomp.json")
	must(t, err)
	must(t, json.Unmarshal(text, &profile))
	missing := func(cap string) bool { return !slices.Contains(dockerCapabilities, cap) }
	var rules []rule
	for _, r := range profile.Syscalls {
		if only := r.Includes; len(only.Arches) > 0 && !slices.Contains(only.Arches, "amd64") || slices.ContainsFunc(only.Caps, missing) {
			continue
		}
		if but := r.Excludes; slices.Contains(but.Arches, "amd64") || slices.ContainsFunc(but.Caps, func(c string) bool { return !missing(c) }) {
			continue
		}
		r.Includes, r.Excludes = facts{}, facts{}
		rules = append(rules, r)
	}
	return map[string]any{"defaultAction": profile.DefaultAction, "architectures": []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"}, "syscalls": rules}
}
