package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/egress/relay"
)

const (
	bodyTimeout = 2 * time.Second       // for the rest of a request's body after its response
	sentTimeout = 20 * time.Millisecond // for a body to be sent completely after the response begins
)

// ensureUpstream connects to the server, again if the server has closed the connection: nothing of this request was sent on it.
func (hc *httpConn) ensureUpstream() (err error) {
	if hc.up == nil {
		hc.up, err = hc.c.connect()
	}
	if err == nil && hc.c.via == nil && hc.up.isStale() {
		hc.closeUpstream()
		hc.up, err = hc.c.connect()
	}
	return err
}

// forward sends a request and returns its response. It reports whether the connection can serve another request.
func (hc *httpConn) forward(r *request) bool {
	if err := hc.ensureUpstream(); err != nil {
		hc.up = nil
		hc.respond(http.StatusBadGateway, errorBody{Error: "toolguard can't reach the server", Target: r.url, Method: r.method, Note: err.Error()})
		return false
	}
	up := hc.up.conn
	stop := context.AfterFunc(hc.c.ctx, func() { up.Close() })
	defer stop()
	hc.stopClientCheck = hc.watchClient()
	defer hc.stopClientCheck()
	closing := r.version == "HTTP/1.0" || r.listContains("Connection", "close")
	if r.length != 0 {
		r.closeUpstreamAfter()
	}
	r.bodyResult = make(chan error, 1)
	if _, err := hc.up.conn.Write(hc.firstWrite(r)); err != nil {
		hc.end()
		return false
	}
	r.expectsContinue = r.single("Expect") != ""
	r.fields = nil // free the memory while the server works
	hc.releaseHead()
	if len(r.bodyResult) == 0 {
		go func() { r.bodyResult <- hc.sendBody(up, r) }()
	}
	result, err := hc.relayResponses(r)
	if result == hijacked {
		return false
	}
	malformed := errors.As(err, new(errResponse))
	if malformed || errors.Is(err, errBudget) {
		up.Close()
		_ = hc.c.conn.SetReadDeadline(time.Now()) // stop sendBody: the rest of the body is not needed
		<-r.bodyResult
		if malformed {
			hc.respond(http.StatusBadGateway, hc.deny(r, mismatch(err.Error())))
		} else {
			hc.respond(http.StatusServiceUnavailable, hc.denyOverLimit(r.method, r.url, err))
		}
		return false
	}
	if !hc.waitBodySent(up, r.bodyResult) || err != nil || result == closeAfter || closing {
		hc.end()
		return false
	}
	if r.length != 0 {
		hc.closeUpstream()
	}
	return true
}

// firstWrite returns the head of a request, with the body if all of it is in the buffer.
func (hc *httpConn) firstWrite(r *request) []byte {
	text := r.append(nil)
	if r.length < 0 || r.length > int64(hc.c.in.Buffered()) {
		return text
	}
	body, _ := hc.c.in.Peek(int(r.length))
	text = append(text, body...)
	_, _ = hc.c.in.Discard(len(body))
	r.bodyResult <- nil
	return text
}

// closeUpstreamAfter makes a request with a body the last one on its connection to the server. Some servers don't read the body of a GET,
// and would parse it as a next request, on which nothing has decided.
func (r *request) closeUpstreamAfter() {
	options := slices.DeleteFunc(r.elements("Connection"), func(e string) bool {
		return e == "" || strings.EqualFold(e, "keep-alive") || strings.EqualFold(e, "close")
	})
	r.remove("Connection")
	// "close" in a field of its own: some servers compare the first field as a whole.
	r.fields = slices.Insert(r.fields, 0, field{"Connection", "close"})
	if len(options) > 0 {
		r.fields = append(r.fields, field{"Connection", strings.Join(options, ", ")})
	}
}

// waitBodySent waits a moment for the rest of the body.
func (hc *httpConn) waitBodySent(up net.Conn, sent chan error) bool {
	select {
	case err := <-sent:
		return err == nil
	default:
	}
	if c, ok := hc.c.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the response is complete
	}
	select {
	case err := <-sent:
		return err == nil
	case <-time.After(bodyTimeout):
	}
	hc.c.conn.Close()
	up.Close()
	<-sent
	return false
}

// sendBody copies a body. If it is malformed the connection to the server is closed, so that the server doesn't take it for a complete one.
// If the server stops reading, it gets time to send its response.
func (hc *httpConn) sendBody(up net.Conn, r *request) error {
	var err error
	if r.length == chunked {
		err = writeChunked(up, httputil.NewChunkedReader(hc.c.in), nil)
		if err == nil {
			err = rejectTrailer(hc.c.in)
		}
		if err == nil {
			_, err = io.WriteString(up, "\r\n")
		}
	} else {
		err = copyN(up, hc.c.in, hc.c.conn, r.length)
	}
	if err != nil {
		if !errors.As(err, new(*net.OpError)) && !errors.As(err, new(*os.SyscallError)) {
			up.Close()
			if !errors.Is(err, io.ErrUnexpectedEOF) { // malformed, not a disconnect
				hc.denyMalformed(fmt.Errorf("a request's body: %w", err))
			}
		}
		time.AfterFunc(bodyTimeout, func() { up.Close() })
	}
	return err
}

// rejectTrailer reads the end of a chunked body. Header fields there are only sent to mislead.
func rejectTrailer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err == nil && string(line) != "\r\n" {
		err = errHead("header fields after the body")
	}
	return err
}

// copyN copies n bytes, or everything if n is negative: first from the buffer, then from the connection.
func copyN(dst net.Conn, in *bufio.Reader, src net.Conn, n int64) error {
	ahead := int64(in.Buffered())
	if n >= 0 {
		ahead = min(n, ahead)
	}
	if _, err := io.CopyN(dst, in, ahead); err != nil {
		return err
	}
	if n >= 0 {
		n -= ahead
	}
	return relay.Transfer(dst, src, n)
}

// chunkBuffers are for bodies of unknown length.
var chunkBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// writeChunked writes a body in chunks as it arrives, up to the last chunk, and a trailer.
func writeChunked(dst io.Writer, body io.Reader, trailer func() (http.Header, error)) error {
	buf := chunkBuffers.Get().(*[]byte)
	defer chunkBuffers.Put(buf)
	w := bufio.NewWriter(dst)
	c := httputil.NewChunkedWriter(w)
	for {
		n, err := body.Read(*buf)
		if n > 0 {
			if _, err := c.Write((*buf)[:n]); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			err = c.Close()
			if trailer != nil {
				fields, none := trailer()
				if none != nil {
					return none
				}
				err = errors.Join(err, fields.Write(w))
				_, _ = w.WriteString("\r\n")
			}
			return errors.Join(err, w.Flush())
		case err != nil:
			return err
		}
	}
}

// outcome is the state of a connection after a response.
type outcome int

const (
	keepOpen   outcome = iota
	closeAfter         // the connection closes
	hijacked           // the connection is a tunnel now
)

// relayResponses forwards informational responses and the final response.
func (hc *httpConn) relayResponses(r *request) (outcome, error) {
	for {
		hc.releaseHead()
		resp, err := hc.up.response(r.method, hc.c.s.helloTimeout, func() (err error) {
			hc.releaseHead, err = hc.c.s.budget.reserve(responseCost)
			return err
		})
		if err != nil {
			return closeAfter, err
		}
		switch s := resp.StatusCode; {
		case s == http.StatusSwitchingProtocols && !(r.webSocket && strings.EqualFold(resp.Header.Get("Upgrade"), "websocket")):
			return closeAfter, errResponse("it changes the protocol without a request")
		case s == http.StatusSwitchingProtocols:
			return hc.hijack(resp, r)
		case r.webSocket && s >= 200 && s < 300 && !hc.allowedAsOrdinary(r):
			return closeAfter, errHead("the server answers the request for a WebSocket as an ordinary one, which was not decided on")
		case s < 200:
			if err := hc.writeHead(resp); err != nil {
				return closeAfter, err
			}
		case r.method == http.MethodConnect && s < 300:
			return hc.hijack(resp, r)
		default:
			if r.length != 0 {
				resp.Close = hc.clientMustClose(r, resp)
			}
			return hc.writeBody(resp)
		}
	}
}

// clientMustClose reports whether the client's connection must end after the response to a request with a body. The server's connection
// ends, but another one can be made, unless the client still sends, or the end of the connection is the end of the response.
func (hc *httpConn) clientMustClose(r *request, resp *http.Response) bool {
	if hc.c.via != nil || resp.Body != http.NoBody && resp.ContentLength < 0 && !isChunked(resp) {
		return true
	}
	wait := sentTimeout
	if r.expectsContinue {
		wait = 0
	}
	select {
	case err := <-r.bodyResult:
		r.bodyResult <- err
		return err != nil
	case <-time.After(wait):
		return true
	}
}

// allowedAsOrdinary decides on a WebSocket request that the server has answered as an ordinary one. It reports a denial.
func (hc *httpConn) allowedAsOrdinary(r *request) bool {
	t := r.dest
	t.Scheme = strings.Replace(t.Scheme, "ws", "http", 1)
	v := hc.c.decide(&t)
	if !v.Allow {
		v.note = "the server has answered a request for a WebSocket as an ordinary one"
		url := strings.Replace(r.url, "ws", "http", 1)
		hc.respond(http.StatusForbidden, newErrorBody(r.method, hc.c.deny(hc.proto, r.method, v, url)))
	}
	return v.Allow
}

// writeHead writes a response's head to the client.
func (hc *httpConn) writeHead(resp *http.Response) error {
	w := bufio.NewWriter(hc.c.conn)
	_, _ = w.WriteString(resp.Proto + " " + resp.Status + "\r\n")
	err := resp.Header.Write(w)
	if isChunked(resp) {
		_, _ = w.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if len(resp.Trailer) > 0 {
		_, _ = w.WriteString("Trailer: " + strings.Join(slices.Collect(maps.Keys(resp.Trailer)), ", ") + "\r\n")
	}
	_, _ = w.WriteString("\r\n")
	return errors.Join(err, w.Flush())
}

func isChunked(resp *http.Response) bool {
	return len(resp.TransferEncoding) == 1 && resp.TransferEncoding[0] == "chunked"
}

// writeBody forwards a response to its end.
func (hc *httpConn) writeBody(resp *http.Response) (a outcome, err error) {
	if resp.Close {
		a = closeAfter
		resp.Header.Set("Connection", "close") // http.ReadResponse has removed it
	}
	if err := hc.writeHead(resp); err != nil {
		return closeAfter, err
	}
	resp.Header = nil // free the memory while the body is copied
	hc.releaseHead()
	switch {
	case resp.Body == http.NoBody:
	case resp.ContentLength >= 0:
		err = copyN(hc.c.conn, hc.up.in, hc.up.conn, resp.ContentLength)
	case isChunked(resp):
		err = writeChunked(hc.c.conn, httputil.NewChunkedReader(hc.up.in), hc.up.trailer)
	default:
		a = closeAfter
		err = copyN(hc.c.conn, hc.up.in, hc.up.conn, -1)
	}
	return a, err
}

// hijack turns the connection into a tunnel: of a WebSocket, or through a proxy.
func (hc *httpConn) hijack(resp *http.Response, r *request) (outcome, error) {
	hc.stopClientCheck()
	if err := hc.writeHead(resp); err != nil {
		return closeAfter, err
	}
	c := hc.c
	tunnel := &conn{s: c.s, ctx: c.ctx, client: c.client, conn: c.conn, in: c.in, cancel: c.cancel, stop: c.stop, via: hc.up}
	tunnel.onClose(hc.unwatch)
	hc.unwatch = func() {}
	c.in, c.stop, hc.up = nil, nil, nil
	if r.method != http.MethodConnect {
		tunnel.to = c.to
		tunnel.forward(nil)
		return hijacked, nil
	}
	tunnel.to, tunnel.tunnelHost = netip.AddrPortFrom(r.dest.Addr, r.dest.Port), r.dest.Host
	tunnel.serve()
	return hijacked, nil
}
