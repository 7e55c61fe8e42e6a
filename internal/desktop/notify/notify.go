// Package notify shows notices by D-Bus, as org.freedesktop.Notifications defines it. Their text comes from confined processes and is
// escaped before it arrives here; here it's escaped for the markup that a notification's body may have.
package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/toolguard/toolguard/internal/desktop"
)

const (
	maxLine = 16 << 10
	pause   = 2 * time.Second // at least, between two notices
	expire  = int32(20_000)   // milliseconds
	answer  = 5 * time.Second
)

// markup has the characters that a body's markup consists of.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// Run shows a notice for each line of JSON until the input ends. Each replaces the one before, and of those that come too fast only the
// last is shown, so that no requester can fill the desktop. Errors are about the bus and about lines that aren't notices.
func Run(ctx context.Context, in io.Reader) error {
	conn, err := dbus.ConnectSessionBus(dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connect to the session bus: %w", err)
	}
	defer conn.Close()
	var shown uint32
	for n := range latest(in) {
		if n.err != nil {
			return n.err
		}
		if shown, err = show(ctx, conn, n.Notice, shown); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
	return nil
}

// show shows a notice in place of another one, and returns its number.
func show(ctx context.Context, conn *dbus.Conn, n desktop.Notice, replaces uint32) (number uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(1)), "category": dbus.MakeVariant("im.received")}
	err = conn.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications").CallWithContext(ctx, "org.freedesktop.Notifications.Notify", 0,
		"toolguard", replaces, "dialog-question", n.Summary, markup.Replace(n.Body), []string{}, hints, expire).Store(&number)
	if err != nil {
		return 0, fmt.Errorf("show a notice: %w", err)
	}
	return number, nil
}

// read is a notice, or why there is none.
type read struct {
	desktop.Notice
	err error
}

// latest returns the notices of the input. One that isn't taken in time is replaced by the next.
func latest(in io.Reader) <-chan read {
	out := make(chan read, 1)
	put := func(r read) {
		select {
		case <-out:
		default:
		}
		out <- r
	}
	go func() {
		defer close(out)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			var n desktop.Notice
			if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
				put(read{err: fmt.Errorf("read a notice: %w", err)})
				return
			}
			put(read{Notice: n})
		}
		if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
			put(read{err: fmt.Errorf("read the notices: %w", err)})
		}
	}()
	return out
}
