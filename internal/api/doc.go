// Package api is the protocol between toolguardd and its clients: JSON over HTTP/1.1 on a unix socket. docs/api.md
// describes it. The client here implements the part of HTTP that this needs: every start of a command loads it, and package
// net/http would cost each a millisecond.
package api
