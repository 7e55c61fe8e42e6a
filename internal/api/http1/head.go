package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxHead is the maximum size of a request's head, and the size that the buffer of ReadHead must have.
const MaxHead = 16 << 10

// Head is the head of a request.
type Head struct {
	Method string            // GET, POST, PUT or DELETE
	Path   string            // decoded
	Query  map[string]string // decoded
	Length int64             // of the body; 0: none
	Close  bool              // the client sends no other request
	Expect bool              // the client waits for the status 100 before it sends the body
	Fields map[string]string // the fields whose names begin with "toolguard-", in lower case
}

// Error is an error with the status that answers it.
type Error struct {
	Status int
	Why    string
}

func (e *Error) Error() string { return e.Why }

// Reject returns an *Error.
func Reject(status int, format string, args ...any) error {
	return &Error{status, fmt.Sprintf(format, args...)}
}

// ReadHead reads the head of a request. The error is an *Error, or that of reading: io.EOF if the client sent nothing.
func ReadHead(in *bufio.Reader) (*Head, error) {
	left := MaxHead
	line, err := headLine(in, &left)
	if err != nil {
		return nil, err
	}
	h, err := requestLine(line)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for {
		line, err := headLine(in, &left)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if line == "" {
			break
		}
		if err := h.field(line, seen); err != nil {
			return nil, err
		}
	}
	if !seen["host"] {
		return nil, Reject(400, "the request has no Host")
	}
	return h, nil
}

// headLine reads a line that ends with CR and LF, and returns it without them.
func headLine(in *bufio.Reader, left *int) (string, error) {
	line, err := in.ReadSlice('\n')
	if *left -= len(line); *left < 0 || errors.Is(err, bufio.ErrBufferFull) {
		return "", Reject(431, "the request's head is too large: it may have %d bytes", MaxHead)
	}
	if err != nil {
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", Reject(400, "a line of the request's head doesn't end with CR and LF, or has control characters")
	}
	return text, nil
}

func requestLine(line string) (*Head, error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 {
		return nil, Reject(400, "the request doesn't begin with a method, a path and HTTP/1.1")
	}
	if parts[2] != "HTTP/1.1" {
		return nil, Reject(505, "the request isn't HTTP/1.1")
	}
	h := &Head{Method: parts[0], Fields: map[string]string{}}
	if !slices.Contains([]string{"GET", "POST", "PUT", "DELETE"}, h.Method) {
		return nil, Reject(501, "the method isn't GET, POST, PUT or DELETE")
	}
	path, query, _ := strings.Cut(parts[1], "?")
	var err error
	if h.Path, err = decodePath(path); err != nil {
		return nil, err
	}
	h.Query, err = decodeQuery(query)
	return h, err
}

// decodePath accepts a path in one form only: no empty part, no "." or "..", no encoded "/".
func decodePath(path string) (string, error) {
	parts := strings.Split(path, "/")
	if len(parts) < 2 || parts[0] != "" || strings.Contains(path, "#") {
		return "", Reject(400, "the path doesn't begin with / or has a #")
	}
	for i, part := range parts[1:] {
		text, err := url.PathUnescape(part)
		if err != nil || text == "" || text == "." || text == ".." || strings.Contains(text, "/") || !isText(text) {
			return "", Reject(400, "part %d of the path is empty, a dot, or isn't text", i+1)
		}
		parts[i+1] = text
	}
	return strings.Join(parts, "/"), nil
}

func decodeQuery(query string) (map[string]string, error) {
	values := map[string]string{}
	if query == "" {
		return values, nil
	}
	all, err := url.ParseQuery(query)
	if err != nil {
		return nil, Reject(400, "the query can't be read")
	}
	for key, list := range all {
		if len(list) != 1 || !isText(key) || !isText(list[0]) {
			return nil, Reject(400, "the query has a key twice, or isn't text")
		}
		values[key] = list[0]
	}
	return values, nil
}

// isText reports whether s is UTF-8 without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// field reads a field. One that decides where the request ends may be there once, in one form.
func (h *Head) field(line string, seen map[string]bool) error {
	key, value, ok := strings.Cut(line, ":")
	if !ok || key == "" || strings.ContainsFunc(key, func(r rune) bool { return !isToken(r) }) {
		return Reject(400, "a field of the request has no name, or one with spaces")
	}
	key, value = strings.ToLower(key), strings.Trim(value, " \t")
	if seen[key] && (slices.Contains([]string{"host", "content-length", "connection", "expect"}, key) || strings.HasPrefix(key, "toolguard-")) {
		return Reject(400, "the request has the field %s twice", key)
	}
	seen[key] = true
	switch key {
	case "transfer-encoding":
		return Reject(411, "the request's body has no Content-Length")
	case "content-length":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != value || n < 0 {
			return Reject(400, "Content-Length isn't a number")
		}
		h.Length = n
	case "connection":
		h.Close = strings.EqualFold(value, "close")
	case "expect":
		if !strings.EqualFold(value, "100-continue") {
			return Reject(417, "the request expects something else than 100-continue")
		}
		h.Expect = true
	default:
		if strings.HasPrefix(key, "toolguard-") {
			h.Fields[key] = value
		}
	}
	return nil
}

// isToken reports whether a character can be in a field's name (RFC 9110, section 5.6.2).
func isToken(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x7f && strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
