package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session"
)

func newReport(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "report SESSION",
		Short: "sum up a session: its command, its end, its denials and rules that would allow them",
		Long: `toolguard report: sum up a session from the events that toolguardd has kept of it, while it runs or after its end. You
see your own sessions, root sees all: 'toolguard events --since 1d --kind session_start' lists them. With --events it's
summed up from a file that 'toolguard exec --events' has written.`,
		Example: `  toolguard report 40b8dd0b28f61937
  toolguard report 40b8dd0b28f61937 --json | jq .denials
  toolguard report --events ../events.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && file == "" {
				return usagef(cmd, "name one session, by its id")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return d.ids(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			id := append(args, "")[0]
			s := session.Summary{Session: id}
			if err := a.eachEvent(d.client(), id, file, s.Add); err != nil {
				return err
			}
			if s.Events == 0 {
				return errors.New("there is no event of such a session: 'toolguard events --since all --kind session_start' lists the sessions")
			}
			return a.answer(asJSON, output.SummaryJSON(&s), func() { a.out.Summary(&s) })
		},
	}
	cmd.Flags().StringVar(&file, "events", "", "sum up the events in `FILE`, as --format ocsf has them, or on standard input (-)")
	d.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// eachEvent calls add for the events of a session in toolguardd's audit, or for those in a file.
func (a *app) eachEvent(c *api.Client, id, file string, add func(*event.Event)) error {
	var from io.Reader
	switch file {
	case "-":
		from = a.in
	case "":
		s, err := c.Follow(api.Events + "?" + url.Values{"format": {"ocsf"}, "session": {id}, "since": {"1970-01-01T00:00:00Z"}}.Encode())
		if err != nil {
			return err
		}
		defer s.Close()
		from = s.Body()
	default:
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestEvent)
	for n := 1; lines.Scan(); n++ {
		e, err := event.Parse(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		add(&e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the events, of which some are missing: %w", err)
	}
	return nil
}

// longestEvent is how long the line of an event may be, in bytes: the confined command chooses how long its events are.
const longestEvent = 2 << 20
