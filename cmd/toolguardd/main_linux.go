// Command toolguardd makes and owns the sessions of ordinary users: docs/daemon.md. As `toolguardd egress` it decides about names for one
// session of root's, which needs no daemon; as `toolguardd audit` it reads the audit for `toolguard audit`; as
// `toolguardd unload` it removes the kernel objects that confine no process any more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/allowlist"
	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/daemon"
	"github.com/toolguard/toolguard/internal/daemon/systemd"
	"github.com/toolguard/toolguard/internal/egress/process"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/version"
)

const usage = `toolguardd: make sessions for ordinary users, and report what is denied in them.

On a kernel with BPF LSM it makes the sessions of users in the group toolguard who run 'toolguard exec'. On any other
kernel their commands run under Landlock, and it reports what Landlock denies, from Linux 6.15 on. 'toolguard doctor' shows
what this machine has. Root runs it, most simply by 'systemctl start toolguardd'.

`

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "toolguardd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "egress" {
		return serveEgress(args[1:])
	}
	if err := allowlist.Load(allowlist.Toolguardd); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "audit" {
		return auditCommand(args[1:])
	}
	if len(args) == 1 && args[0] == "unload" { // the package's removal
		return loader.Unload()
	}
	flags := flag.NewFlagSet("toolguardd", flag.ContinueOnError)
	socket := flags.String("socket", api.Socket, "listen at `PATH`, unless systemd passes a socket")
	config := flags.String("config", "/etc/toolguard/toolguardd.toml", "read settings from `FILE`, at the start and at SIGHUP")
	cfg := daemon.Config{Policies: "/etc/toolguard/policy.d", Version: version.String()}
	flags.StringVar(&cfg.State, "state", "/var/lib/toolguard", "keep what must outlive toolguardd in `DIR`")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is an argument, and the command has none", flags.Arg(0))
	}
	if os.Geteuid() != 0 {
		return errors.New("only root may run it: it loads programs into the kernel")
	}
	// Otherwise the kernel makes huge pages of the heap (khugepaged), including the memory that the runtime has released.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	set, err := daemon.ReadSettings(*config)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	kept := audit.Start(audit.Config{
		Folder: filepath.Join(cfg.State, "audit"), Version: cfg.Version, Limits: set.Audit.Limits(),
		Readers: readers(), Cursors: filepath.Join(cfg.State, "ship", "state.json"),
	})
	cfg.Limits, cfg.Audit = set.User, kept
	err = serve(cfg, kept, *socket, *config)
	if missing, why := kept.Close(); missing > 0 || why != nil {
		cfg.Log.Warn(fmt.Sprintf("%d events aren't in the audit: %v", missing, why))
	}
	return err
}

// readers is the group whose members may read the audit, the shipper's user among them; 0: there's none.
func readers() int {
	g, err := user.LookupGroup("toolguard-audit")
	if err != nil {
		return 0
	}
	id, _ := strconv.Atoi(g.Gid) // 0, root's, where it isn't a number
	return id
}

// serveEgress is what toolguard starts for a command that may use the network: `toolguardd egress DESCRIPTOR`. Only toolguard starts it.
func serveEgress(args []string) error {
	if len(args) == 1 {
		if fd, err := strconv.Atoi(args[0]); err == nil && fd > 2 {
			return process.Serve(fd)
		}
	}
	return errors.New("only toolguard itself starts egress")
}

func serve(cfg daemon.Config, kept *audit.Log, path, config string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	// A goroutine in a system call, for a disk for instance, occupies one of these for up to 10 ms: until the runtime's monitor looks.
	// On a machine with one processor no other request would be served meanwhile.
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	d, err := daemon.New(cfg)
	if err != nil {
		return err
	}
	l, measured, err := daemon.Listen(path)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", path, err)
	}
	if err := systemd.Notify("READY=1"); err != nil {
		cfg.Log.Warn("systemd can't be notified that toolguardd is ready: " + err.Error())
	}
	go d.Watchdog(ctx)
	if measured != nil {
		go func() {
			if err := d.ServeMetrics(ctx, measured); err != nil {
				cfg.Log.Warn("metrics can't be read any more: " + err.Error())
			}
		}()
	}
	go reload(d, kept, cfg.Log, config, hup)
	return d.Serve(ctx, l)
}

// reload reads the settings again at each signal. Those that can't be read change nothing.
func reload(d *daemon.Daemon, kept *audit.Log, log *slog.Logger, config string, signals <-chan os.Signal) {
	for range signals {
		set, err := daemon.ReadSettings(config)
		if err != nil {
			log.Warn("the settings stay as they were: " + err.Error())
			continue
		}
		d.SetLimits(set.User)
		kept.SetLimits(set.Audit.Limits())
		log.Info("the settings were read again")
	}
}
