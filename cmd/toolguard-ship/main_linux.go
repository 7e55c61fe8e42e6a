// Command toolguard-ship sends toolguardd's audit to where events are collected: docs/sinks.md. It is a separate program, so that
// the code for these receivers isn't in a process of root. For the same reason, it shows notices about approvals on the desktop.
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

const usage = `toolguard-ship sends the events that toolguardd stores to where they are collected.

  toolguard-ship [--config FILE]          send events until terminated
  toolguard-ship [--config FILE] check    validate the settings
  toolguard-ship [--config FILE] status   print the status of each sink
  toolguard-ship hook                     post a tool call to a hook: started by toolguard

`

func main() {
	log.SetOutput(io.Discard)      // net/http logs at a receiver's will, without limit
	signal.Ignore(syscall.SIGPIPE) // of a stdout without reader: the other sinks continue
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "toolguard-ship:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "hook" {
		return hook(args[1:], os.Stdin, os.Stdout)
	}
	if len(args) == 1 && args[0] == "notify" {
		return showNotices(os.Stdin)
	}
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
	return fmt.Errorf("unknown command %q: see toolguard-ship --help", flags.Args())
}

// maxMemory is the shipper's memory limit. A receiver that makes it exceed the limit ends it. Its unit restarts it, and it
// continues from its cursors.
const maxMemory = 512 << 20

func limitMemory() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &now); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	debug.SetMemoryLimit(maxMemory / 2) // above this, garbage is collected continuously
	most := min(now.Max, maxMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// writeStatus writes a table of the sinks for people.
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
