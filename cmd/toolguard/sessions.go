package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy/policyload"
)

// daemonFlags select the socket of toolguardd.
type daemonFlags struct{ socket string }

func (d *daemonFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.socket, "socket", api.Socket, "ask the toolguardd that listens at `PATH`")
}

func (d *daemonFlags) client() *api.Client { return &api.Client{Socket: d.socket} }

func newSessions(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "look at, end and change running sessions",
		Long: `toolguard sessions: what toolguardd has running. You see your own sessions, root sees all.
Sessions that root runs without toolguardd, and those of other backends than bpf, aren't among them.`,
		Example: `  toolguard sessions list
  toolguard sessions show 40b8dd0b28f61937
  toolguard sessions reload 40b8dd0b28f61937 --policy ../policy.toml
  toolguard sessions kill 40b8dd0b28f61937`,
		Args: cobra.ArbitraryArgs,
		RunE: nameOne,
	}
	cmd.AddCommand(newSessionsList(a), newSessionsShow(a), newSessionsKill(a), newSessionsReload(a))
	return cmd
}

func newSessionsList(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the sessions that run, the oldest first",
		Example: `  toolguard sessions list
  toolguard sessions list --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			list := []api.Session{}
			if err := d.client().Do("GET", api.Sessions, nil, &list); err != nil {
				return err
			}
			return a.answer(asJSON, list, func() { a.out.Sessions(list) })
		},
	}
	d.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// aboutSession is a command about one session.
func aboutSession(d *daemonFlags, use, short string, do func(id string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  toolguard sessions " + strings.Replace(use, "ID", "40b8dd0b28f61937", 1),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "name one session, by its id: 'toolguard sessions list' has them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return do(args[0]) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return d.ids(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	d.define(cmd)
	return cmd
}

// ids are the sessions' ids, each with what it runs, for completion.
func (d *daemonFlags) ids() (ids []string) {
	var list []api.Session
	if err := d.client().Do("GET", api.Sessions, nil, &list); err != nil {
		return nil // there is no stream to report it on
	}
	for _, s := range list {
		ids = append(ids, s.ID+"\t"+output.Clean(output.CommandLine(s.Argv)))
	}
	return ids
}

func newSessionsShow(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON bool
	cmd := aboutSession(&d, "show ID", "show one session", func(id string) error {
		var s api.Session
		if err := d.client().Do("GET", sessionPath(id), nil, &s); err != nil {
			return err
		}
		return a.answer(asJSON, s, func() { a.out.Session(s) })
	})
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newSessionsKill(a *app) *cobra.Command {
	var d daemonFlags
	return aboutSession(&d, "kill ID", "end a session: SIGTERM to all of it, SIGKILL after two seconds", func(id string) error {
		var s api.Session
		if err := d.client().Do("DELETE", sessionPath(id), nil, &s); err != nil {
			return err
		}
		a.err.Message("session %s is being ended (%s)", s.ID, output.CommandLine(s.Argv))
		return nil
	})
}

func newSessionsReload(a *app) *cobra.Command {
	var d daemonFlags
	var p policyFlags
	var cmd *cobra.Command
	cmd = aboutSession(&d, "reload ID --policy ../policy.toml", "give a running session another policy, at once", func(id string) error {
		if len(p.Files) == 0 {
			return usagef(cmd, "name the new policy: --policy FILE")
		}
		var s api.Session
		if err := d.client().Do("GET", sessionPath(id), nil, &s); err != nil {
			return err
		}
		p.Tool, p.Agent, p.Workspace = s.Tool, s.Agent, s.Workspace
		p.Running = &policyload.Running{Home: s.Home, Terminal: s.Terminal, Hidden: s.Hidden}
		p.Own = slices.DeleteFunc(s.Files, func(f string) bool { // a file that no longer exists can't be changed
			_, err := os.Lstat(f)
			return errors.Is(err, fs.ErrNotExist)
		})
		if err := os.Setenv("PATH", s.Path); err != nil { // where the session finds its programs
			return err
		}
		if real, err := filepath.EvalSymlinks(s.TmpDir); err != nil || real != s.TmpDir { // what runs there may do that, and mustn't gain by it
			s.TmpDir = ""
		}
		c, err := p.Load(s.TmpDir)
		if err != nil {
			return err
		}
		if err := d.client().Do("PUT", sessionPath(id)+api.Policy, api.Reload{Policy: c}, &s); err != nil {
			return err
		}
		a.err.Message("session %s is under policy %s (%.12s) from now on: its rules for files, commands and the network; its environment, "+
			"limits, system calls and all that is about tool calls stay as they were at its start, and open files stay open; so do network connections, except those that the policy doesn't grant", s.ID, s.Policy, s.Digest)
		return nil
	})
	cmd.Flags().StringArrayVar(&p.Files, "policy", nil, "the new policy: `FILE` or preset:NAME; repeated ones are merged")
	if err := cmd.RegisterFlagCompletionFunc("policy", completePolicy); err != nil {
		panic(err) // a mistake in this program
	}
	return cmd
}
