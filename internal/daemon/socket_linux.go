package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/daemon/systemd"
	"github.com/toolguard/toolguard/internal/event"
)

// Serve answers on a socket until ctx is done.
func (d *Daemon) Serve(ctx context.Context, socket *net.UnixListener) error {
	l := &peer.Listener{UnixListener: socket, MaxConnections: d.connections, SessionOf: d.sessionOf, Subuid: "/etc/subuid"}
	if err := d.markListener(socket); err != nil {
		return err
	}
	srv := &http.Server{
		Handler: d.Handler(), ConnContext: peer.ConnContext, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: answering, ReadTimeout: time.Minute, IdleTimeout: answering,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		close(d.stopping) // subscribers get what is queued
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(late)
		_ = srv.Close()
		flushed := make(chan struct{})
		go func() { d.streams.Wait(); close(flushed) }()
		select {
		case <-flushed:
		case <-late.Done():
		}
		for _, s := range d.all(0) {
			s.calls.Close()
		}
		d.closeIdle()
		d.hub.publish(0, &event.Event{Kind: event.Daemon, Mechanism: "toolguardd", Extra: map[string]string{"what": "toolguardd stopped"}})
	}()
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}

// markListener lets confined processes connect, to begin nested sessions.
func (d *Daemon) markListener(socket *net.UnixListener) error {
	if d.kernel == nil {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = d.kernel.MarkListener(int(fd)) })
	return errors.Join(cerr, err)
}

// sessionOf is the session of the process that made a connection.
func (d *Daemon) sessionOf(conn, pidfd int) (uint64, error) {
	if d.kernel == nil {
		return 0, nil
	}
	return d.kernel.SessionOfPeer(conn, pidfd)
}

// The names that the packaged units give their sockets.
const (
	mainSocket    = "toolguardd.socket"
	metricsSocket = "metrics"
)

// Listen returns the socket that systemd passes, or a new one at path for root and the group toolguard; and the metrics socket of systemd,
// or nil.
func Listen(path string) (l *net.UnixListener, metrics net.Listener, err error) {
	all, err := systemd.Sockets()
	if err != nil {
		return nil, nil, err
	}
	for name := range all {
		if name != mainSocket && name != metricsSocket {
			return nil, nil, fmt.Errorf("systemd passed a socket named %q: the known names are %q and %q", name, mainSocket, metricsSocket)
		}
	}
	if passed := all[mainSocket]; passed != nil {
		l, ok := passed.(*net.UnixListener)
		if !ok {
			return nil, nil, fmt.Errorf("the socket %q that systemd passed isn't a unix socket", mainSocket)
		}
		return l, all[metricsSocket], nil
	}
	l, err = peer.Listen(path)
	return l, all[metricsSocket], err
}

// Watchdog reports to systemd that toolguardd isn't blocked (sd_watchdog_enabled(3)).
func (d *Daemon) Watchdog(ctx context.Context) {
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return
	}
	for tick := time.NewTicker(time.Duration(us) * time.Microsecond / 2); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			d.mu.Lock()   // the watchdog detects a goroutine
			d.mu.Unlock() //nolint:staticcheck // that never unlocks it
			_ = systemd.Notify("WATCHDOG=1")
		}
	}
}
