package main

import (
	"context"
	"io"

	"github.com/toolguard/toolguard/internal/allowlist"
	"github.com/toolguard/toolguard/internal/desktop/notify"
)

// showNotices shows notices on the desktop until the input ends: toolguard starts it as its user, without settings.
func showNotices(in io.Reader) error {
	if err := allowlist.Load(allowlist.Ship); err != nil {
		return err
	}
	if err := limitMemory(); err != nil {
		return err
	}
	return notify.Run(context.Background(), in)
}
