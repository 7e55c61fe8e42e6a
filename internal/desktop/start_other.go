//go:build !linux

package desktop

// start returns nil, which shows nothing: there is no D-Bus.
func start() chan Notice { return nil }
