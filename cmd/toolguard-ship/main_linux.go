// Command toolguard-ship sends what toolguardd keeps to where events are collected: docs/sinks.md. It's a program of its own, so that what
// it takes to talk to those isn't in a process of root's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/allowlist"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/ship"
	"github.com/toolguard/toolguard/internal/version"
)

const usage = `toolguard-ship sends the events that toolguardd keeps to where they're collected.

  toolguard-ship [--config FILE]          do so until it's ended
  toolguard-ship [--config FILE] check    say whether the settings can be used
  toolguard-ship [--config FILE] status   how each sink is

`

func main() {
	log.SetOutput(io.Discard)      // what net/http says there is at a receiver's will, as often as that likes
	signal.Ignore(syscall.SIGPIPE) // of a stdout that nobody reads: the other sinks go on
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "toolguard-ship:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("toolguard-ship", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage); flags.PrintDefaults() }
	path := flags.String("config", "/etc/toolguard/ship.toml", "read settings from `FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := allowlist.Load(allowlist.Ship); err != nil {
		return err
	}
	cfg, err := ship.Read(*path)
	if err != nil {
		return err
	}
	cfg.Version = version.String()
	switch {
	case flags.NArg() > 1:
	case flags.Arg(0) == "":
		if err := limitMemory(); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return ship.Run(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case flags.Arg(0) == "check":
		return ship.Check(cfg)
	case flags.Arg(0) == "status":
		st, err := ship.ReadState(cfg.State)
		if err != nil {
			return err
		}
		return writeStatus(os.Stdout, st, time.Now())
	}
	return fmt.Errorf("there is no such command as %q: see toolguard-ship --help", flags.Args())
}

// maxMemory is what the shipper may take: a receiver that has it ask for more ends it. It's started again, and goes on from its cursors.
const maxMemory = 512 << 20

func limitMemory() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &now); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	debug.SetMemoryLimit(maxMemory / 2) // from here on garbage is looked for all the time
	most := min(now.Max, maxMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// writeStatus is a table of the sinks for people.
func writeStatus(w io.Writer, st ship.State, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SINK\tTYPE\tDELIVERED\tBEHIND\tGAPS\tLAST\tSTATE")
	for _, name := range slices.Sorted(st.Names()) {
		s := st.Sinks[name]
		last, state := "never", "ok"
		if !s.Last.IsZero() {
			last = now.Sub(s.Last).Round(time.Second).String() + " ago"
		}
		if s.Failing != "" {
			state = fmt.Sprintf("failing for %s: %s", now.Sub(s.Since).Round(time.Second), s.Failing)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", event.Plain(name), event.Plain(s.Type), s.Delivered, st.Behind(name), s.Gaps, last, event.Plain(state))
	}
	return t.Flush()
}
