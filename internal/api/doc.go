// Package api is what toolguardd and those who ask it say to each other: JSON over HTTP/1.1 on a unix socket. docs/daemon.md
// tells it to people. The client here speaks just as much HTTP as that takes: every start of a command loads it, and package
// net/http would cost each a millisecond.
package api
