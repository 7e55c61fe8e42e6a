package backend

import (
	"fmt"
	"os"
	"slices"

	"github.com/toolguard/toolguard/internal/bubblewrap"
	"github.com/toolguard/toolguard/internal/firejail"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// wrapper is a program that makes the mounts of a session.
type wrapper struct {
	name    string // of the backend
	canary  func() error
	options func(visible []string) mounts.Options
	report  func(*policy.Compiled, *mounts.Plan, int) []policy.Enforceability
	wrap    func(p *mounts.Plan, dir string, capabilities []string) (*launch.Wrapper, error)
	gaps    func(abi int) []string
}

// byBubblewrap is the backend of bubblewrap's namespaces, with Landlock and system call filters within.
func byBubblewrap() (Backend, error) {
	program, err := bubblewrap.Find()
	if err != nil {
		return Backend{}, fmt.Errorf("the bwrap backend can't be used here: %w", err)
	}
	return byWrapper(&wrapper{
		name: "bwrap", canary: program.Canary, report: bubblewrap.Report, gaps: bubblewrap.StatedGaps,
		options: func(visible []string) mounts.Options { return mounts.Options{Visible: visible} },
		wrap: func(p *mounts.Plan, dir string, capabilities []string) (*launch.Wrapper, error) {
			o := bubblewrap.Options{Dir: dir, Network: p.Network, Capabilities: capabilities}
			return &launch.Wrapper{Path: program.Path, Args: func(inner []string, _ []int) ([]string, error) { return bubblewrap.Args(p, o, inner) }}, nil
		},
	})
}

// byFirejail is the same with firejail, which is setuid root and so works where ordinary users may not make user namespaces.
func byFirejail() (Backend, error) {
	program, err := firejail.Find()
	if err != nil {
		return Backend{}, fmt.Errorf("the firejail backend can't be used here: %w", err)
	}
	return byWrapper(&wrapper{
		name: "firejail", canary: program.Canary, report: firejail.Report, options: firejail.PlanOptions, gaps: firejail.StatedGaps,
		wrap: func(p *mounts.Plan, _ string, _ []string) (*launch.Wrapper, error) {
			text, err := firejail.Profile(p)
			if err != nil {
				return nil, err
			}
			profile, err := firejail.ProfileFile(text)
			if err != nil {
				return nil, err
			}
			args := func(inner []string, keep []int) ([]string, error) {
				return firejail.Args(firejail.Options{Network: p.Network, ProfileFD: int(profile.Fd()), Keep: keep}, inner), nil
			}
			env := []string{"HOME=" + os.Getenv("HOME"), "PATH=/usr/bin:/bin"}
			return &launch.Wrapper{Path: program.Path, Args: args, Env: env, Files: []*os.File{profile}}, nil
		},
	})
}

// byWrapper is the backend of a wrapper's namespaces. Landlock decides within about everything that it can; the mounts take away what it can't.
func byWrapper(w *wrapper) (Backend, error) {
	abi, err := LandlockABI()
	abi = min(abi, mounts.MaxABI)
	if err != nil {
		return Backend{}, fmt.Errorf("the %s backend needs Landlock within: %w", w.name, err)
	}
	if err := w.canary(); err != nil {
		return Backend{}, fmt.Errorf("the %s backend can't be used here: %w", w.name, err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return Backend{}, err
	}
	var plan *mounts.Plan
	inProc := func(gap string) bool { return gap == landlock.OthersInProc }
	return Backend{
		name:  w.name,
		gaps:  append(slices.DeleteFunc(w.gaps(abi), inProc), wrapperGaps...),
		Level: abi,
		Wrap: func(c *policy.Compiled) (*launch.Wrapper, error) {
			kept := Capabilities(c)
			if os.Geteuid() == 0 {
				kept = append(kept, "CAP_SETPCAP") // with which the stage drops the others from the bounding set
			}
			wrapper, err := w.wrap(plan, dir, kept)
			if err == nil {
				wrapper.Mounts, wrapper.Covers = plan.Mounts, plan.Covers
			}
			return wrapper, err
		},
		report: func(_ *Backend, c *policy.Compiled) []policy.Enforceability {
			p, err := mounts.New(c, mounts.Host{}, w.options([]string{dir}))
			if err != nil {
				return []policy.Enforceability{{ID: w.name, By: w.name, Why: err.Error()}}
			}
			plan = p
			rows := reportOwnProc(reportRings(c, w.report(c, p, abi), seccomp.Backend{ABI: abi}))
			return slices.Concat(rows, reportEnv(c), reportLimits(c), reportCgroup(c), reportAudit(c, w.name, w.name+" doesn't report executions"))
		},
	}, nil
}

// reportOwnProc corrects the row of the session's own entries in /proc, which within the session's own PID namespace has no others.
func reportOwnProc(rows []policy.Enforceability) []policy.Enforceability {
	for i := range rows {
		if rows[i].Opens != "" {
			rows[i].Why = "landlock can't distinguish the session's own /proc entries from the kernel's files there that every user may read, and grants both; other " +
				"processes aren't in this /proc"
		}
	}
	return rows
}

// protectsMore reports whether bubblewrap could mask what exists of the files that landlock can't protect.
func protectsMore(rows []policy.Enforceability) bool {
	_, err := os.Stat(bubblewrap.Path)
	return err == nil && slices.ContainsFunc(rows, func(row policy.Enforceability) bool { return row.Advisory && Kind(row.ID) != row.ID })
}

// Capabilities returns those that a command keeps, if its user has them: all that any layer names.
func Capabilities(c *policy.Compiled) (kept []string) {
	for _, l := range c.Layers {
		kept = append(kept, l.Capabilities...)
	}
	return kept
}

var wrapperGaps = []string{
	"what the mounts deny leaves no event: the command's own messages show it",
	"the kernel's files in /proc that every user may read can be read where the built-in rules let a session read its own entries",
	"when the command ends, what it left in the background is killed at once, without SIGTERM",
}
