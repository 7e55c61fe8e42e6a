// Package systemd receives sockets from systemd, and reports states to it.
package systemd
