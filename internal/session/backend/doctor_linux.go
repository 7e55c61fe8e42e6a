package backend

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/bubblewrap"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/session/network"
)

func doctor() Machine {
	ask := sync.OnceValues(AskDaemon)
	m := Machine{Probes: append([]Probe{
		probeKernel(), probeLandlock(), probeCanary(), probeSeccomp(), probeSeccompLog(), probeAudit(), probeCgroup(), probeNet(),
	}, probeBPF()...)}
	for _, name := range Backends {
		b, _, err := named(name, "auto", ask)
		s := BackendState{Name: name, Available: err == nil, Gaps: b.gaps}
		if err != nil {
			s.Why, s.Missing = err.Error(), errors.Is(err, bubblewrap.ErrMissing)
		}
		m.Backends = append(m.Backends, s)
	}
	if b, err := automatic("auto", ask); err == nil {
		m.Auto, m.Instead = b.name, instead(&b, "auto", "auto")
		if b.name == "bpf" && os.Geteuid() != 0 {
			m.askDaemon(ask)
		}
	}
	return m
}

// askDaemon replaces results by those of toolguardd for the sessions that it makes.
func (m *Machine) askDaemon(ask AskState) {
	status, err := ask()
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
	p := Probe{Name: "landlock denies", Needs: "proof that rules are enforced"}
	if err := landlock.Canary(); err != nil {
		p.Result, p.Detail = No, err.Error()
		p.Fix = "find out what disables Landlock here (a container's seccomp profile is usual)"
		return p
	}
	p.Result, p.Detail = Yes, "opening a file without a grant was denied"
	return p
}

func probeSeccomp() Probe {
	p := Probe{Name: "seccomp filters", Needs: "what is always denied: mounts, namespaces, io_uring, foreign ABIs, …"}
	_, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), "a kernel with CONFIG_SECCOMP_FILTER"
	}
	return p
}

// probeSeccompLog: a denied call is logged only when "errno" is in actions_logged (Documentation/userspace-api/
// seccomp_filter.rst).
func probeSeccompLog() Probe {
	p := Probe{Name: "seccomp logs errno", Needs: "events of denied system calls"}
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
	} else if why := subscribable(); why == nil {
		p.Result, p.Detail = Yes, "toolguardd reads the kernel's audit records"
		return p
	} else if os.Geteuid() != 0 {
		err = why
	}
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), "have toolguardd read them (docs/daemon.md), or run as root (CAP_AUDIT_READ and CAP_AUDIT_CONTROL), on Linux 6.15 or newer; denials are enforced without it"
		return p
	}
	p.Detail = "the kernel's audit records can be read"
	if landlock.Audited() != nil {
		p.Result, p.Fix = No, "a kernel whose Landlock writes them: Linux 6.15 or newer (ABI 7)"
		p.Detail += ", but Landlock writes none here: only denied system calls are reported"
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

// probeNet loads the programs, because only that shows whether the kernel accepts them.
func probeNet() Probe {
	p := Probe{Name: probedNet, Needs: "the network by host, address, path and method"}
	if err := network.Ready(); err != nil {
		p.Result, p.Detail, p.Fix = No, err.Error(), "run as root, with cgroup v2 mounted and toolguardd in toolguard's folder, or have root start toolguardd ('systemctl start toolguardd')"
		return p
	}
	s, err := cgroupsock.Load()
	if p.Result = found(err); err != nil {
		p.Detail, p.Fix = err.Error(), "Linux 6.1 or newer with CONFIG_CGROUP_BPF"
		return p
	}
	s.Close()
	p.Detail = "the kernel accepts them"
	return p
}

// probeBPF returns the requirements of the bpf backend.
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

// subscribable returns why toolguardd can't report denials by Landlock to this user.
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
