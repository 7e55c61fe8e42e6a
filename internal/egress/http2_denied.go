package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"golang.org/x/net/http2/hpack"

	"github.com/toolguard/toolguard/internal/policy"
)

// refused2 is an HTTP/2 connection with a client, on which net/http rejects by itself what is malformed, or too much. It reports that to nobody, so
// it's read in the frames that it writes: they are its own word, and well-formed.
type refused2 struct {
	net.Conn
	tell func(v policy.Verdict, note string)

	head []byte // of a frame, and as much of its payload as counts
	rest int    // of the payload of a frame that doesn't
	text *hpack.Decoder

	mu    sync.Mutex
	ours  map[string]int // responses with a status that net/http gives by itself too, on their way
	ended bool           // it's over, by the client's will or because of what was said
}

func newRefused2(c net.Conn, tell func(v policy.Verdict, note string)) *refused2 {
	r := &refused2{Conn: c, tell: tell, ours: map[string]int{}}
	r.text = hpack.NewDecoder(tableSize, r.field)
	return r
}

// Of RFC 9113, 6 and 7.
const (
	frameHead     = 9
	frameHeaders  = 1
	frameReset    = 3
	frameGoAway   = 7
	frameContinue = 9

	codeNone     = 0
	codeInternal = 2 // of a server that broke, too
	codeClosed   = 5 // what was still on its way of a request that has been answered
	codeRefused  = 7
	codeCancel   = 8
	codeTooMuch  = 11

	tableSize = 4096 // of what was said before in heads (RFC 7541, 6.3)
)

func (r *refused2) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.end()
	}
	return n, err
}

// Close ends it, and tells when net/http does that without a word.
func (r *refused2) Close() error {
	if !r.end() {
		r.tell(slow, "too slow to say what it wants, or not as HTTP/2")
	}
	return r.Conn.Close()
}

// end says whether it was over already.
func (r *refused2) end() (before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.ended = r.ended, true
	return before
}

func (r *refused2) Write(p []byte) (int, error) {
	for q := p; len(q) > 0; {
		n := min(r.rest, len(q))
		r.rest -= n
		if q = q[n:]; len(q) > 0 {
			q = r.read(q)
		}
	}
	n, err := r.Conn.Write(p)
	if err != nil {
		r.end()
	}
	return n, err
}

// read takes the next bytes of a frame that may count, and returns what follows them.
func (r *refused2) read(p []byte) []byte {
	n := min(r.wants()-len(r.head), len(p))
	r.head = append(r.head, p[:n]...)
	if len(r.head) < frameHead {
		return p[n:]
	}
	if kind := r.head[3]; kind != frameHeaders && kind != frameContinue && kind != frameReset && kind != frameGoAway {
		r.rest, r.head = r.wants()-frameHead, r.head[:0]
	} else if len(r.head) == r.wants() {
		r.frame(kind, r.head[frameHead:])
		r.head = r.head[:0]
	}
	return p[n:]
}

// wants is how long the head is, and then the frame.
func (r *refused2) wants() int {
	if len(r.head) < frameHead {
		return frameHead
	}
	return frameHead + int(r.head[0])<<16 + int(binary.BigEndian.Uint16(r.head[1:]))
}

func (r *refused2) frame(kind byte, payload []byte) {
	switch kind {
	case frameHeaders, frameContinue:
		_, _ = r.text.Write(payload)
	case frameReset:
		r.code(binary.BigEndian.Uint32(payload))
	case frameGoAway:
		r.end()
		r.code(binary.BigEndian.Uint32(payload[4:]))
	}
}

func (r *refused2) code(code uint32) {
	switch code {
	case codeNone, codeInternal, codeClosed, codeCancel:
	case codeRefused, codeTooMuch:
		r.tell(slow, "too many requests at once")
	default:
		r.tell(mismatch, fmt.Sprintf("what HTTP/2 doesn't allow (its error %d)", code))
	}
}

// twoFold says whether net/http answers so by itself: to fields that HTTP/2 has not, and to too long a head.
func twoFold(status string) bool { return status == "400" || status == "431" }

func (r *refused2) field(f hpack.HeaderField) {
	if f.Name != ":status" || !twoFold(f.Value) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ours[f.Value] > 0 {
		r.ours[f.Value]--
		return
	}
	note := "header fields that HTTP/2 hasn't"
	if f.Value == "431" {
		note = errTooLong.Error()
	}
	r.tell(mismatch, "a request's head: "+note)
}

// responder is where a request that was decided on is answered.
type responder struct {
	http.ResponseWriter
	conn *refused2
}

// WriteHeader notes a response that net/http could have given too.
func (w *responder) WriteHeader(status int) {
	if s := strconv.Itoa(status); twoFold(s) {
		w.conn.add(s, 1)
		defer func() {
			if http.NewResponseController(w.ResponseWriter).Flush() != nil { // it isn't on its way
				w.conn.add(s, -1)
			}
		}()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *responder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (r *refused2) add(status string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ours[status] = max(0, r.ours[status]+n)
}
