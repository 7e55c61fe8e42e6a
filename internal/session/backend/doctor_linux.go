package backend

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/session/network"
)

func doctor() Machine {
	asked := sync.OnceValues(AskDaemon)
	m := Machine{Probes: append([]Probe{
		probeKernel(), probeLandlock(), probeCanary(), probeSeccomp(), probeSeccompLog(), probeAudit(), probeCgroup(), probeNet(),
	}, probeBPF()...)}
	for _, name := range Backends {
		b, _, err := named(name, "auto", asked)
		s := BackendState{Name: name, Available: err == nil, Gaps: b.gaps}
		if err != nil {
			s.Why = err.Error()
		}
		m.Backends = append(m.Backends, s)
	}
	if b, err := automatic("auto", asked); err == nil {
		m.Auto, m.Instead = b.name, instead(&b, "auto", "auto")
		if b.name == "bpf" && os.Geteuid() != 0 {
			m.askDaemon(asked)
		}
	}
	return m
}

// askDaemon takes from toolguardd what it has for the sessions that it makes.
func (m *Machine) askDaemon(asked AskState) {
	status, err := asked()
	if err != nil {
		return
	}
	for i := range m.Probes {
		p, why := &m.Probes[i], status.Network
		switch p.Name {
		case probedCgroup:
			why = status.Cgroups.Why
		case probedNet:
		default:
			continue
		}
		if p.Result, p.Detail, p.Fix = Yes, "toolguardd has them", ""; why != "" {
			p.Result, p.Detail, p.Fix = No, "toolguardd: "+why, "'sudo journalctl -u toolguardd' shows more"
		}
	}
}

// found makes a result of an error.
func found(err error) Tri {
	if err != nil {
		return No
	}
	return Yes
}

func probeKernel() Probe {
	var u unix.Utsname
	p := Probe{Name: "kernel", Needs: "everything", Result: found(unix.Uname(&u))}
	p.Detail = unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	return p
}

func probeLandlock() Probe {
	p := Probe{Name: "landlock", Needs: "the landlock backend: files, programs, ports"}
	abi, errata, err := landlock.Probe()
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), `a kernel with CONFIG_SECURITY_LANDLOCK (5.13 or newer) and "landlock" in its lsm= list`
		return p
	}
	p.Detail = fmt.Sprintf("ABI %d, errata %#x", abi, errata)
	return p
}

func probeCanary() Probe {
	p := Probe{Name: "landlock denies", Needs: "proof that what is set up is enforced"}
	if err := landlock.Canary(); err != nil {
		p.Result, p.Detail = No, err.Error()
		p.Fix = "find out what disables Landlock here (a container's seccomp profile is usual)"
		return p
	}
	p.Result, p.Detail = Yes, "an open that nothing grants was refused"
	return p
}

func probeSeccomp() Probe {
	p := Probe{Name: "seccomp filters", Needs: "what is always refused: mounts, namespaces, io_uring, foreign ABIs, …"}
	_, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), "a kernel with CONFIG_SECCOMP_FILTER"
	}
	return p
}

// probeSeccompLog: a refused call is logged only when "errno" is in actions_logged (Documentation/userspace-api/
// seccomp_filter.rst).
func probeSeccompLog() Probe {
	p := Probe{Name: "seccomp logs errno", Needs: "events of refused system calls"}
	b, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_logged")
	switch {
	case err != nil:
		p.Detail = err.Error()
	case strings.Contains(" "+string(b), " errno"):
		p.Result = Yes
	default:
		p.Result, p.Detail = No, strings.TrimSpace(string(b))
		p.Fix = "as root: sysctl kernel.seccomp.actions_logged='kill_process kill_thread errno user_notif trace trap log'"
	}
	return p
}

func probeAudit() Probe {
	p := Probe{Name: probedAudit, Needs: "--events and the report: the kernel's audit records"}
	err := kernelaudit.Permitted()
	if err == nil {
		err = proveAudit()
	} else if ask := subscribable(); ask == nil {
		p.Result, p.Detail = Yes, "toolguardd reads the kernel's audit records"
		return p
	} else if os.Geteuid() != 0 {
		err = ask
	}
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), "have toolguardd read them (docs/daemon.md), or run as root (CAP_AUDIT_READ and CAP_AUDIT_CONTROL), on Linux 6.15 or newer; what is denied stays denied without it"
		return p
	}
	p.Detail = "the kernel's audit records can be read"
	if landlock.Audited() != nil {
		p.Result, p.Fix = No, "a kernel whose Landlock writes them: Linux 6.15 or newer (ABI 7)"
		p.Detail += ", but Landlock doesn't write any here: only refused system calls are told"
	}
	return p
}

func proveAudit() error {
	reader, err := kernelaudit.Open()
	if err != nil {
		return err
	}
	reader.Listen()
	return errors.Join(reader.Prove(), reader.Close())
}

func probeCgroup() Probe {
	p := Probe{Name: probedCgroup, Needs: "limits: memory, pids, cpu, io"}
	f := cgroup.Probe()
	p.Detail = f.Mode.String() + ", controllers: " + strings.Join(f.Controllers, " ")
	if len(f.Controllers) == 0 {
		p.Detail = f.Mode.String() + ", no controllers"
	}
	if p.Result = Yes; f.Why != "" {
		p.Result, p.Fix = No, f.Why
	}
	return p
}

// probeNet loads the programs, since nothing else tells whether the kernel takes them.
func probeNet() Probe {
	p := Probe{Name: probedNet, Needs: "the network by host, address, path and method"}
	if err := network.Ready(); err != nil {
		p.Result, p.Detail, p.Fix = No, err.Error(), "run as root, with cgroup v2 mounted and toolguardd beside toolguard, or have root start toolguardd ('systemctl start toolguardd')"
		return p
	}
	s, err := cgroupsock.Load()
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), "Linux 6.1 or newer with CONFIG_CGROUP_BPF"
		return p
	}
	s.Close()
	p.Detail = "the kernel takes them"
	return p
}

// probeBPF is what the bpf backend needs.
func probeBPF() (probes []Probe) {
	for _, f := range loader.Probes() {
		p := Probe{Name: f.Name, Needs: needsBPF + ": all of a policy's rules about files and programs", Detail: f.Detail, Result: Yes}
		if f.Err != nil {
			p.Result, p.Detail, p.Fix = No, f.Err.Error(), f.Fix
		}
		if errors.Is(f.Err, loader.ErrUnknown) {
			p.Result = Unknown
		}
		probes = append(probes, p)
	}
	return probes
}

// subscribable is nil where toolguardd reads what Landlock denies for this user.
func subscribable() error {
	if err := landlock.Audited(); err != nil {
		return err
	}
	var status api.Daemon
	err := (&api.Client{Socket: api.Socket}).Do("GET", api.Status, nil, &status)
	if err == nil && status.Denials != "" {
		err = errors.New("toolguardd: " + status.Denials)
	}
	return err
}
