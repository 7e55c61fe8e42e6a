package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// restrictToHost returns a policy restricted by the host's policies as toolguardd itself reads them. The toolguard that compiled the policy
// is the user's: its statement about them doesn't count.
func (d *Daemon) restrictToHost(o origin, st *api.Start, c *policy.Compiled) (*policy.Compiled, error) {
	there, err := d.hasHost()
	switch {
	case err != nil:
		return nil, reject(503, "the host's policies can't be used: %v", err)
	case !there:
		return c, nil
	}
	if err := d.sameMounts(o); err != nil {
		return nil, err
	}
	host, err := d.host(o, st, c, c.TmpDir)
	if err != nil && o.runs && c.TmpDir != "" { // the session may have changed its TMPDIR, which must not prevent the reload
		tmpErr := err
		if host, err = d.host(o, st, c, ""); err == nil {
			d.log("the host's policies no longer let the session of process %d write its TMPDIR: %v", o.pid, tmpErr)
		}
	}
	if f := (*statusError)(nil); errors.As(err, &f) {
		return nil, f
	} else if err != nil {
		return nil, reject(503, "the host's policies can't be used: %v", err)
	}
	in, err := c.Within(host)
	if err != nil {
		return nil, reject(422, "%v", err)
	}
	return in, nil
}

// origin is the client of a policy: a user's process in the session from, and the mount namespace that it was in at its start.
type origin struct {
	from     uint64
	uid, pid int
	mounts   uint32
	runs     bool // the session is running already
}

// sameMounts checks that a session sees the machine's files by the names that the host's policies use. toolguardd itself may be in a mount
// namespace of its own, where some are read-only.
func (d *Daemon) sameMounts(o origin) error {
	if d.mounts == 0 {
		return reject(503, "toolguardd can't find the machine's mount namespace, to which the host's policies apply: it needs CAP_SYS_PTRACE")
	}
	if o.mounts != d.mounts {
		return reject(403, "this host has policies, and process %d is in another mount namespace, where their paths may name "+
			"other files: start toolguard outside of the container or the unshare, or from a systemd unit without PrivateTmp=, "+
			"ProtectSystem= and similar settings", o.pid)
	}
	return nil
}

// checkTmpDir checks that a folder is a TMPDIR as toolguard creates it: the host's policies let a session write it.
func checkTmpDir(dir string, uid int) error {
	if !strings.HasPrefix(filepath.Base(dir), api.TmpPrefix) {
		return fmt.Errorf("its name doesn't begin with %s", api.TmpPrefix)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// openat2(2) could reject symlinks by itself, but systemd's RestrictSUIDSGID= denies it.
	if real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || real != dir {
		return errors.Join(fmt.Errorf("it leads to %s", real), err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != uid || st.Mode&0o777 != 0o700 {
		return fmt.Errorf("it belongs to user %d with mode %04o, and must belong to user %d with 0700", st.Uid, st.Mode&0o777, uid)
	}
	return nil
}

// hasHost reports whether the host has policies.
func (d *Daemon) hasHost() (bool, error) {
	entries, err := os.ReadDir(d.cfg.Policies)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".toml") }), err
}

// host compiles the host's policies for a session. All of them let tmp be written; "": none.
func (d *Daemon) host(o origin, st *api.Start, c *policy.Compiled, tmp string) (*policy.Compiled, error) {
	if tmp != "" {
		if err := checkTmpDir(tmp, o.uid); err != nil {
			return nil, reject(403, "the host's policies can't restrict this policy, because toolguard didn't make its TMPDIR %s: %v; "+
				"start toolguard without a TMPDIR of your own", tmp, err)
		}
	}
	home := ""
	if u, err := user.LookupId(fmt.Sprint(o.uid)); err == nil {
		home = u.HomeDir
	}
	terminal, hidden := peer.TerminalOf(o.pid)
	machine := hostfs.Machine{}
	src, _, err := policyfile.Load(policyfile.Request{
		HostDir: d.cfg.Policies, Tool: st.Tool, Agent: st.Agent,
		Workspace: c.Workspace, Dir: c.Workspace, Home: home, Path: c.Path, TmpDir: tmp, Terminal: terminal, HideTTY: hidden,
	}, machine)
	if err != nil {
		return nil, err
	}
	// The rules of the default policy aren't the host's.
	src.Layers = slices.DeleteFunc(src.Layers, func(l policy.SourceLayer) bool { return l.Authority == policy.Session })
	host, err := policy.Compile(src, machine)
	if err != nil {
		return nil, err
	}
	for _, r := range host.Rules { // it may have become a symlink since the check
		if tmp != "" && r.FS != nil && r.FS.Written == tmp && r.FS.Path != tmp {
			return nil, reject(409, "the TMPDIR %s leads to %s", tmp, r.FS.Path)
		}
	}
	return host, nil
}
