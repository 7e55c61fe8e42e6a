package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/api"
)

// sessionPath returns the path of a session in toolguardd's API.
func sessionPath(id string) string { return api.Sessions + "/" + url.PathEscape(id) }

func newEvents(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON, goOn bool
	var since, format string
	filter := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "print the denials, starts and ends of toolguardd's sessions",
		Long: `toolguard events: print events as they happen, until it's interrupted; with --since those that were stored since
then, with --since and --follow both, without a gap between. You see those of your own sessions, root sees all. When
toolguardd ends while they're followed it exits with 2: later events aren't printed.`,
		Example: `  toolguard events
  toolguard events --since 1h --kind denial
  toolguard events --since all --follow --session 40b8dd0b28f61937
  toolguard events --json | jq .`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				format = "ocsf"
			}
			ask := url.Values{"format": {format}}
			for name, value := range filter {
				ask.Set(name, *value)
			}
			if since == "" {
				return a.follow(d.client(), api.Events+"?"+ask.Encode(), true)
			}
			from, err := sinceWhen(since, time.Now())
			if err != nil {
				return usagef(cmd, "%v", err)
			}
			ask.Set("since", from.UTC().Format(time.RFC3339Nano))
			ask.Set("follow", strconv.FormatBool(goOn))
			return a.follow(d.client(), api.Events+"?"+ask.Encode(), goOn)
		},
	}
	for _, f := range [][2]string{
		{"session", "only those of session `ID`"},
		{"tool", "only those of tool `NAME`"},
		{"kind", "only `KIND`: denial, exec, session_start, session_end, gap, daemon"},
		{"reason", "only denials for `REASON`, such as no_rule"},
	} {
		filter[f[0]] = cmd.Flags().String(f[0], "", f[1])
	}
	cmd.Flags().StringVar(&since, "since", "", "begin with the events since `WHEN`: 90s, 2h, a time such as 2026-11-21T08:15:02Z, all")
	cmd.Flags().BoolVarP(&goOn, "follow", "f", false, "with --since, go on with new events; without --since that is the default")
	choiceFlag(cmd, &format, "format", "how they're written", "text", "ocsf", "ocsf-1.8", "ecs")
	complete(cmd, "kind", "denial", "exec", "session_start", "session_end", "gap", "daemon")
	d.completeSession(cmd)
	d.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// completeSession completes the flag session.
func (d *daemonFlags) completeSession(cmd *cobra.Command) {
	if err := cmd.RegisterFlagCompletionFunc("session", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return d.ids(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // a mistake in this program
	}
}

// sinceWhen parses a time, absolute or before now.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "all" {
		return time.Unix(0, 0), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %s: write how long ago, such as 90s or 2h, a time such as 2026-11-21T08:15:02Z, or all", text)
}

// follow copies an answer. toolguardd has made its text fit for a terminal. One that goes on and on ends with toolguardd.
func (a *app) follow(c *api.Client, path string, goesOn bool) error {
	s, err := c.Follow(path)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = io.Copy(a.out.W, s.Body())
	switch {
	case err == nil && !goesOn:
		return nil
	case !goesOn:
		return fmt.Errorf("read the events, of which some are missing: %w", err)
	case err == nil || errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("toolguardd has ended: follow its successor by calling this again")
	}
	return fmt.Errorf("follow the events: %w", err)
}
