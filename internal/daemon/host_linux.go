package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// hosted is a user's policy, put within the host's where it leaves them out: toolguard compiles them with its own, and who asks
// may be something else.
func (d *Daemon) hosted(uid, pid int, st *api.Start, c *policy.Compiled) (*policy.Compiled, error) {
	host, err := d.host(uid, pid, st, c)
	if err != nil {
		return nil, refuse(503, "the host's policies can't be used: %v", err)
	}
	if host == nil || c.Holds(host) {
		return c, nil
	}
	return c.Within(host)
}

// host compiles the host's policies for a session, as the toolguard that starts it should have; nil: there are none.
func (d *Daemon) host(uid, pid int, st *api.Start, c *policy.Compiled) (*policy.Compiled, error) {
	entries, err := os.ReadDir(d.cfg.Policies)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".toml") }) {
		return nil, nil
	}
	home := ""
	if u, err := user.LookupId(fmt.Sprint(uid)); err == nil {
		home = u.HomeDir
	}
	terminal, hidden := terminalOf(pid)
	machine := policyfile.Machine{}
	src, _, err := policyfile.Load(policyfile.Request{
		HostDir: d.cfg.Policies, Tool: st.Tool, Agent: st.Agent,
		Workspace: c.Workspace, Dir: c.Workspace, Home: home, Path: c.Path, TmpDir: c.TmpDir, Terminal: terminal, HideTTY: hidden,
	}, machine)
	if err != nil {
		return nil, err
	}
	// What the default policy says isn't the host's.
	src.Layers = slices.DeleteFunc(src.Layers, func(l policy.SourceLayer) bool { return l.Authority == policy.Session })
	return policy.Compile(src, machine)
}
