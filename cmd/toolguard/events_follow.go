package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/api"
)

// sessionPath is where a session is asked for.
func sessionPath(id string) string { return api.Sessions + "/" + url.PathEscape(id) }

func newEvents(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON bool
	filter := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "follow what toolguardd's sessions are refused, and when they begin and end",
		Long: `toolguard events: print events as they happen, until it's interrupted. You see those of your own sessions, root
sees all. When toolguardd ends it exits with 2: what happens then isn't told here.`,
		Example: `  toolguard events
  toolguard events --session 40b8dd0b28f61937 --kind denial
  toolguard events --json | jq .`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			ask := url.Values{"format": {"text"}}
			if asJSON {
				ask.Set("format", "ocsf")
			}
			for name, value := range filter {
				ask.Set(name, *value)
			}
			return a.follow(d.client(), api.Events+"?"+ask.Encode())
		},
	}
	for _, f := range [][2]string{
		{"session", "only those of session `ID`"},
		{"tool", "only those of tool `NAME`"},
		{"kind", "only `KIND`: denial, session_start, session_end, gap, daemon"},
		{"reason", "only denials for `REASON`, such as no_rule"},
	} {
		filter[f[0]] = cmd.Flags().String(f[0], "", f[1])
	}
	complete(cmd, "kind", "denial", "session_start", "session_end", "gap", "daemon")
	if err := cmd.RegisterFlagCompletionFunc("session", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return d.ids(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // a mistake in this program
	}
	d.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// follow copies an answer that goes on and on. toolguardd has made its text fit for a terminal.
func (a *app) follow(c *api.Client, path string) error {
	s, err := c.Follow(path)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = io.Copy(a.out.w, s.Body())
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("toolguardd has ended: follow its successor by calling this again")
	}
	return fmt.Errorf("follow the events: %w", err)
}
