//go:build !linux

package session

import "github.com/toolguard/toolguard/internal/session/backend"

func prefetchState(bool) backend.AskState { return backend.AskDaemon }
