package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds on a head.
const (
	maxHead   = 64 << 10
	maxFields = 256
)

// head is a request's head, read in the one way that it can be read in.
type head struct {
	method, target, version string
	fields                  []field // in order, without those that frame the message
	host                    string
	hasHost                 bool
	length                  int64 // of the body, or chunked
	sized                   bool  // the length is said
}

type field struct{ name, value string }

// chunked is the length of a body that says itself where it ends.
const chunked = -1

// errHead is what is wrong with a head.
type errHead string

func (e errHead) Error() string {
	return "a request that servers could read in different ways: " + string(e)
}

var errTooLong = errors.New("it's too long")

// readHead reads the bytes of a head, to the empty line at its end. Nothing at all is io.EOF. For a long one room must be found.
func readHead(r *bufio.Reader, room func() error) ([]byte, error) {
	var raw []byte
	for {
		line, err := r.ReadSlice('\n')
		if len(raw) <= shortHead && len(raw)+len(line) > shortHead {
			if err := room(); err != nil {
				return nil, err
			}
		}
		raw = append(raw, line...)
		switch {
		case len(raw) > maxHead:
			return nil, errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(raw) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(bytes.TrimRight(line, "\r\n")) == 0 && bytes.HasSuffix(raw[:len(raw)-len(line)], []byte("\n")), len(raw) <= 2:
			return raw, nil
		}
	}
}

// parseHead reads a head strictly (RFC 9112).
func parseHead(raw []byte) (*head, error) {
	lines := strings.Split(string(raw), "\r\n")
	if len(lines) < 3 || lines[len(lines)-1] != "" || lines[len(lines)-2] != "" {
		return nil, errHead("its lines don't end with CRLF")
	}
	h := &head{}
	if err := h.request(lines[0]); err != nil {
		return nil, err
	}
	lines = lines[1 : len(lines)-2]
	if len(lines) > maxFields {
		return nil, errHead("too many header fields")
	}
	for _, l := range lines {
		if err := h.field(l); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding"} {
		if h.lists("Connection", name) {
			return nil, errHead("its " + name + " is meant for the next server alone")
		}
	}
	return h, h.frame()
}

func (h *head) request(line string) error {
	words := strings.Split(line, " ")
	if len(words) != 3 {
		return errHead("its first line isn't of three words")
	}
	h.method, h.target, h.version = words[0], words[1], words[2]
	switch {
	case h.method == "" || len(h.method) > maxMethod || strings.ContainsFunc(h.method, notMethod):
		return errHead("its method isn't one in capitals")
	case h.target == "" || strings.ContainsFunc(h.target, notInTarget):
		return errHead("its target has characters that none has")
	case h.version != "HTTP/1.1" && h.version != "HTTP/1.0":
		return errHead(fmt.Sprintf("its version is %q", h.version))
	}
	return nil
}

func notInTarget(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }

func (h *head) field(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.ContainsFunc(name, notToken) {
		return errHead("a header field without a proper name, or continued from the line before")
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return errHead("a control character in the value of " + name)
		}
	}
	h.fields = append(h.fields, field{name, value})
	return nil
}

func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

// frame takes out the fields that say for whom the message is and where it ends. Each may be there once, and only one of the two lengths.
func (h *head) frame() error {
	var length, coding *string
	var err error
	once := func(p **string, f field) {
		if *p != nil {
			err = errHead("more than one " + f.name)
		}
		*p = &f.value
	}
	var host *string
	rest := h.fields[:0]
	for _, f := range h.fields {
		name := folded(f.name)
		switch {
		case name == "host":
			once(&host, f)
		case name == "content-length":
			once(&length, f)
		case name == "transfer-encoding":
			once(&coding, f)
		default:
			rest = append(rest, f)
			continue
		}
		if !strings.EqualFold(f.name, name) {
			return errHead(f.name + ", which some servers take for another header field")
		}
	}
	if h.fields = rest; err != nil {
		return err
	}
	if host != nil {
		h.host, h.hasHost = *host, true
	}
	return h.body(length, coding)
}

func (h *head) body(length, coding *string) (err error) {
	switch {
	case coding != nil && (length != nil || h.version == "HTTP/1.0"):
		return errHead("two lengths of its body")
	case coding != nil && !strings.EqualFold(*coding, "chunked"):
		return errHead(fmt.Sprintf("its transfer encoding is %q", *coding))
	case coding != nil:
		h.length = chunked
	case length != nil:
		if *length == "" || len(*length) > 18 || strings.Trim(*length, "0123456789") != "" {
			return errHead(fmt.Sprintf("its length is %q", *length))
		}
		h.sized = true
		h.length, err = strconv.ParseInt(*length, 10, 64)
	}
	return err
}

// only is the value of a field that is there exactly once, or nothing.
func (h *head) only(name string) (value string) {
	n := 0
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			value = f.value
			n++
		}
	}
	if n != 1 {
		return ""
	}
	return value
}

// lists says whether a field that is a list has an element.
func (h *head) lists(name, element string) bool {
	for _, f := range h.fields {
		if !strings.EqualFold(f.name, name) {
			continue
		}
		for e := range strings.SplitSeq(f.value, ",") {
			if strings.EqualFold(strings.Trim(e, " \t"), element) {
				return true
			}
		}
	}
	return false
}

// drop takes fields out.
func (h *head) drop(names ...string) {
	rest := h.fields[:0]
	for _, f := range h.fields {
		if !containsFold(names, f.name) {
			rest = append(rest, f)
		}
	}
	h.fields = rest
}

func containsFold(l []string, s string) bool {
	for _, e := range l {
		if strings.EqualFold(e, s) {
			return true
		}
	}
	return false
}

// append writes the head again.
func (h *head) append(b []byte) []byte {
	b = append(b, h.method+" "+h.target+" "+h.version+"\r\n"...)
	if h.hasHost {
		b = append(b, "Host: "+h.host+"\r\n"...)
	}
	for _, f := range h.fields {
		b = append(b, f.name+": "+f.value+"\r\n"...)
	}
	switch {
	case h.length == chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case h.sized:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, h.length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
