package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/egress/relay"
)

const (
	bodyTime = 2 * time.Second       // for the rest of a request when its response is over
	sentTime = 20 * time.Millisecond // for it to have been sent whole, when the response begins
)

// reach makes sure of a connection to the server. One that the server has closed meanwhile is made again, as nothing of this
// request was sent on it.
func (k *httpConn) reach() (err error) {
	if k.up == nil {
		k.up, err = k.f.connect()
	}
	if err == nil && k.f.via == nil && k.up.stale() {
		k.endUp()
		k.up, err = k.f.connect()
	}
	return err
}

// forward sends a request and brings its response. True: the connection is ready for the next one.
func (k *httpConn) forward(r *request) bool {
	if err := k.reach(); err != nil {
		k.up = nil
		k.refuse(http.StatusBadGateway, refusal{Error: "toolguard can't reach the server", Target: r.url, Method: r.method, Note: err.Error()})
		return false
	}
	up := k.up.conn
	stop := context.AfterFunc(k.f.ctx, func() { up.Close() })
	defer stop()
	k.unwatch = k.watchClient()
	defer k.unwatch()
	ends := r.version == "HTTP/1.0" || r.lists("Connection", "close")
	if r.length != 0 {
		r.alone()
	}
	r.sent = make(chan error, 1)
	if _, err := k.up.conn.Write(k.opening(r)); err != nil {
		k.end()
		return false
	}
	r.waits = r.only("Expect") != ""
	r.fields = nil // it may be long until the response is there
	k.short()
	if len(r.sent) == 0 {
		go func() { r.sent <- k.sendBody(up, r) }()
	}
	over, err := k.answer(r)
	if over == takenOver {
		return false
	}
	wrong := errors.As(err, new(errReply))
	if wrong || errors.Is(err, errBudget) {
		up.Close()
		_ = k.f.conn.SetReadDeadline(time.Now()) // nobody wants the rest of the body, and who reads it must have ended
		<-r.sent
		if wrong {
			k.refuse(http.StatusBadGateway, k.deny(r, decision{Verdict: mismatch, note: err.Error()}))
		} else {
			k.refuse(http.StatusServiceUnavailable, k.limited(r.method, r.url, err))
		}
		return false
	}
	if !k.bodySent(up, r.sent) || err != nil || over == last || ends {
		k.end()
		return false
	}
	if r.length != 0 {
		k.endUp()
	}
	return true
}

// opening is the head of a request, with the body if all of that is there already, or none.
func (k *httpConn) opening(r *request) []byte {
	text := r.append(nil)
	if r.length < 0 || r.length > int64(k.f.in.Buffered()) {
		return text
	}
	body, _ := k.f.in.Peek(int(r.length))
	text = append(text, body...)
	_, _ = k.f.in.Discard(len(body))
	r.sent <- nil
	return text
}

// alone has a request with a body be the last one on its connection to the server. A server that doesn't read the body, as some don't
// that of a GET, would take it for the next request, which nobody has decided on.
func (r *request) alone() {
	var others []string
	fields := []field{{"Connection", "close"}} // by itself: some servers look at the whole of the first one
	for _, f := range r.fields {
		if !strings.EqualFold(f.name, "Connection") {
			fields = append(fields, f)
			continue
		}
		for e := range strings.SplitSeq(f.value, ",") {
			if e = strings.Trim(e, " \t"); e != "" && !strings.EqualFold(e, "keep-alive") && !strings.EqualFold(e, "close") {
				others = append(others, e)
			}
		}
	}
	if len(others) > 0 {
		fields = append(fields, field{"Connection", strings.Join(others, ", ")})
	}
	r.fields = fields
}

// bodySent waits for the rest of the body, for a while.
func (k *httpConn) bodySent(up net.Conn, sent chan error) bool {
	select {
	case err := <-sent:
		return err == nil
	default:
	}
	if c, ok := k.f.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the client has all that it gets
	}
	select {
	case err := <-sent:
		return err == nil
	case <-time.After(bodyTime):
	}
	k.f.conn.Close()
	up.Close()
	<-sent
	return false
}

// sendBody copies a body. A broken one breaks the connection to the server, which mustn't take it for a whole one. Where the server
// doesn't want more it's given the time to say why.
func (k *httpConn) sendBody(up net.Conn, r *request) error {
	var err error
	if r.length == chunked {
		err = chunk(up, httputil.NewChunkedReader(k.f.in), nil)
		if err == nil {
			err = noTrailer(k.f.in)
		}
		if err == nil {
			_, err = io.WriteString(up, "\r\n")
		}
	} else {
		err = copyN(up, k.f.in, k.f.conn, r.length)
	}
	if err != nil {
		if !errors.As(err, new(*net.OpError)) && !errors.As(err, new(*os.SyscallError)) {
			up.Close()
			if !errors.Is(err, io.ErrUnexpectedEOF) { // the client hasn't merely gone
				k.wrong(fmt.Errorf("a request's body: %w", err))
			}
		}
		time.AfterFunc(bodyTime, func() { up.Close() })
	}
	return err
}

// noTrailer reads the end of a chunked body, which has header fields only where somebody wants to be misunderstood.
func noTrailer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err == nil && string(line) != "\r\n" {
		err = errHead("header fields after the body")
	}
	return err
}

// copyN copies n bytes, or with a negative n all there are: first what was read already, then from the connection.
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

// chunks are for bodies of unknown length.
var chunks = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// chunk writes a body in chunks, each as soon as it's there, and up to the last one.
func chunk(dst io.Writer, body io.Reader, trailer func() (http.Header, error)) error {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
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

// What becomes of a connection after a response.
type after int

const (
	next      after = iota
	last            // it ends
	takenOver       // it's no longer ours
)

// answer brings the response, and those that only say that it's coming.
func (k *httpConn) answer(r *request) (after, error) {
	for {
		k.short()
		resp, err := k.up.response(r.method, k.f.s.hello, func() (err error) {
			k.short, err = k.f.s.budget.take(holdsReply)
			return err
		})
		if err != nil {
			return last, err
		}
		switch s := resp.StatusCode; {
		case s == http.StatusSwitchingProtocols && !(r.ws && strings.EqualFold(resp.Header.Get("Upgrade"), "websocket")):
			return last, errReply("it changes the protocol unasked")
		case s == http.StatusSwitchingProtocols:
			return k.takeOver(resp, r)
		case r.ws && s >= 200 && s < 300 && !k.ordinary(r):
			return last, errHead("the server takes the request for a WebSocket as an ordinary one, which isn't what was decided on")
		case s < 200:
			if err := k.writeHead(resp); err != nil {
				return last, err
			}
		case r.method == http.MethodConnect && s < 300:
			return k.takeOver(resp, r)
		default:
			if r.length != 0 {
				resp.Close = k.parts(r, resp)
			}
			return k.writeBody(resp)
		}
	}
}

// parts says whether the client's connection ends with the response to a request with a body. The server's does, but another one can be
// made, unless the client still has something to send, or the response says by its end where it ends.
func (k *httpConn) parts(r *request, resp *http.Response) bool {
	if k.f.via != nil || resp.Body != http.NoBody && resp.ContentLength < 0 && !isChunked(resp) {
		return true
	}
	wait := sentTime
	if r.waits {
		wait = 0
	}
	select {
	case err := <-r.sent:
		r.sent <- err
		return err != nil
	case <-time.After(wait):
		return true
	}
}

// ordinary says whether a request for a WebSocket may be an ordinary one too, as which the server has taken it. If not that's reported.
func (k *httpConn) ordinary(r *request) bool {
	t := r.t
	t.Scheme = strings.Replace(t.Scheme, "ws", "http", 1)
	v := k.f.decide(&t)
	if !v.Allow {
		v.note = "the server has answered a WebSocket's request as an ordinary one"
		url := strings.Replace(r.url, "ws", "http", 1)
		k.refuse(http.StatusForbidden, refusing(r.method, k.f.deny(k.proto, r.method, v, url)))
	}
	return v.Allow
}

// writeHead writes a response's head again.
func (k *httpConn) writeHead(resp *http.Response) error {
	w := bufio.NewWriter(k.f.conn)
	_, _ = w.WriteString(resp.Proto + " " + resp.Status + "\r\n")
	err := resp.Header.Write(w)
	if isChunked(resp) {
		_, _ = w.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if len(resp.Trailer) > 0 {
		names := make([]string, 0, len(resp.Trailer))
		for n := range resp.Trailer {
			names = append(names, n)
		}
		_, _ = w.WriteString("Trailer: " + strings.Join(names, ", ") + "\r\n")
	}
	_, _ = w.WriteString("\r\n")
	return errors.Join(err, w.Flush())
}

func isChunked(resp *http.Response) bool {
	return len(resp.TransferEncoding) == 1 && resp.TransferEncoding[0] == "chunked"
}

// writeBody writes a response, to its end.
func (k *httpConn) writeBody(resp *http.Response) (a after, err error) {
	if resp.Close {
		a = last
		resp.Header.Set("Connection", "close") // http.ReadResponse has taken it out
	}
	if err := k.writeHead(resp); err != nil {
		return last, err
	}
	resp.Header = nil // it may be long until the body is over
	k.short()
	switch {
	case resp.Body == http.NoBody:
	case resp.ContentLength >= 0:
		err = copyN(k.f.conn, k.up.in, k.up.conn, resp.ContentLength)
	case isChunked(resp):
		err = chunk(k.f.conn, httputil.NewChunkedReader(k.up.in), k.up.trailer)
	default:
		a = last
		err = copyN(k.f.conn, k.up.in, k.up.conn, -1)
	}
	return a, err
}

// takeOver makes of the connection a tunnel, of WebSockets or, where a proxy was asked for one, of whatever is said in it.
func (k *httpConn) takeOver(resp *http.Response, r *request) (after, error) {
	k.unwatch()
	if err := k.writeHead(resp); err != nil {
		return last, err
	}
	f := k.f
	g := &conn{s: f.s, ctx: f.ctx, client: f.client, conn: f.conn, in: f.in, cancel: f.cancel, stop: f.stop, via: k.up}
	g.untilEnd(k.over)
	k.over = func() {}
	f.in, f.stop, k.up = nil, nil, nil
	if r.method != http.MethodConnect {
		g.to = f.to
		g.passOn(nil)
		return takenOver, nil
	}
	g.to, g.tunnel = netip.AddrPortFrom(r.t.Addr, r.t.Port), r.t.Host
	g.serve()
	return takenOver, nil
}
