//go:build !linux

package socket

import (
	"context"
	"errors"
	"net"
)

// ErrUnsupported is the error where there are no such sockets.
var ErrUnsupported = errors.New("sessions serve no calls on this system: Linux is needed")

// List returns nothing.
func List([]string) ([]string, error) { return nil, nil }

// Dial returns ErrUnsupported.
func Dial(context.Context, string) (*net.UnixConn, error) { return nil, ErrUnsupported }
