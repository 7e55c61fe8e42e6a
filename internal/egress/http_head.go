package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Limits of a head.
const (
	maxHead   = 64 << 10
	maxFields = 256
)

// head is a request's head, parsed strictly: no server could parse it differently.
type head struct {
	method, target, version string
	fields                  []field // in order, without those that frame the message
	host                    string
	hasHost                 bool
	length                  int64 // of the body, or chunked
	hasLength               bool  // there is a Content-Length
}

type field struct{ name, value string }

// chunked is the length of a body with Transfer-Encoding chunked.
const chunked = -1

// errHead is the reason why a head is rejected.
type errHead string

func (e errHead) Error() string {
	return "a request that servers could read in different ways: " + string(e)
}

var errTooLong = errors.New("it's too long")

// readHead reads a head, including the empty line at its end. It returns io.EOF if there is nothing. For a long head reserve must succeed.
func readHead(r *bufio.Reader, reserve func() error) ([]byte, error) {
	var raw []byte
	for {
		line, err := r.ReadSlice('\n')
		if len(raw) <= shortHead && len(raw)+len(line) > shortHead {
			if err := reserve(); err != nil {
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
	if err := h.parseRequestLine(lines[0]); err != nil {
		return nil, err
	}
	lines = lines[1 : len(lines)-2]
	if len(lines) > maxFields {
		return nil, errHead("too many header fields")
	}
	for _, l := range lines {
		if err := h.parseField(l); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding"} {
		if h.listContains("Connection", name) {
			return nil, errHead("its Connection names " + name)
		}
	}
	return h, h.parseFraming()
}

func (h *head) parseRequestLine(line string) error {
	words := strings.Split(line, " ")
	if len(words) != 3 {
		return errHead("its request line hasn't three parts")
	}
	h.method, h.target, h.version = words[0], words[1], words[2]
	switch {
	case h.method == "" || len(h.method) > maxMethod || strings.ContainsFunc(h.method, invalidMethodRune):
		return errHead("its method isn't in capitals")
	case h.target == "" || strings.ContainsFunc(h.target, invalidTargetRune):
		return errHead("its target has invalid characters")
	case h.version != "HTTP/1.1" && h.version != "HTTP/1.0":
		return errHead(fmt.Sprintf("its version is %q", h.version))
	}
	return nil
}

func invalidTargetRune(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }

func (h *head) parseField(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.ContainsFunc(name, invalidTokenRune) {
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

func invalidTokenRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

// parseFraming removes Host and the fields that frame the body. Each may occur once, and only one of the two lengths.
func (h *head) parseFraming() error {
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
		name := foldName(f.name)
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
			return errHead(f.name + ", which some servers read as another header field")
		}
	}
	if h.fields = rest; err != nil {
		return err
	}
	if host != nil {
		h.host, h.hasHost = *host, true
	}
	return h.parseLength(length, coding)
}

func (h *head) parseLength(length, coding *string) (err error) {
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
		h.hasLength = true
		h.length, err = strconv.ParseInt(*length, 10, 64)
	}
	return err
}

// single returns the value of a field that occurs exactly once, or "".
func (h *head) single(name string) (value string) {
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

// listContains reports whether a list field contains an element.
func (h *head) listContains(name, element string) bool {
	return slices.ContainsFunc(h.elements(name), func(e string) bool { return strings.EqualFold(e, element) })
}

// elements returns the elements of a list field.
func (h *head) elements(name string) (list []string) {
	for _, f := range h.fields {
		if !strings.EqualFold(f.name, name) {
			continue
		}
		for e := range strings.SplitSeq(f.value, ",") {
			list = append(list, strings.Trim(e, " \t"))
		}
	}
	return list
}

// remove removes fields.
func (h *head) remove(names ...string) {
	h.fields = slices.DeleteFunc(h.fields, func(f field) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, f.name) })
	})
}

// append appends the head in wire format to b.
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
	case h.hasLength:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, h.length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
