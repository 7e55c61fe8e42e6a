// Package http1 is the part of HTTP/1.1 that toolguard uses on unix sockets: the client's half, and the head of a request for a server. net/http
// would take a part of toolguard's start. The server's half is strict: what two parsers could read in two ways is an error.
package http1
