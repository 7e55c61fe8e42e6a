// Command toolguardd makes and owns the sessions of ordinary users: docs/daemon.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon"
)

// version is set by the linker for a release (-X main.version=v1.2.3).
var version = "" //nolint:gochecknoglobals // the linker's

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "toolguardd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("toolguardd", flag.ContinueOnError)
	socket := flags.String("socket", api.Socket, "listen at `PATH`, unless systemd hands a socket over")
	cfg := daemon.Config{Version: version, Limits: daemon.DefaultLimits}
	flags.StringVar(&cfg.State, "state", "/var/lib/toolguard", "keep what must outlive toolguardd in `DIR`")
	flags.IntVar(&cfg.Limits.Sessions, "sessions", cfg.Limits.Sessions, "at most `N` sessions of one user at a time")
	flags.IntVar(&cfg.Limits.Connections, "connections", cfg.Limits.Connections, "at most `N` connections of one user at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("it takes no argument, and %q is one", flags.Arg(0))
	}
	if os.Geteuid() != 0 {
		return errors.New("only root may run it: it loads programs into the kernel")
	}
	if info, ok := debug.ReadBuildInfo(); cfg.Version == "" && ok {
		cfg.Version = info.Main.Version
	}
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	return serve(cfg, *socket)
}

func serve(cfg daemon.Config, path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d, err := daemon.New(cfg)
	if err != nil {
		return err
	}
	l, err := daemon.Listen(path)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", path, err)
	}
	if err := daemon.Notify("READY=1"); err != nil {
		cfg.Log.Warn("systemd isn't told that toolguardd is ready: " + err.Error())
	}
	go d.Watchdog(ctx)
	return d.Serve(ctx, l)
}
