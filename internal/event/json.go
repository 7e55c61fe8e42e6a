package event

import (
	"strconv"
	"unicode/utf8"
)

// object writes one JSON object. Empty strings, zero numbers and objects without a member are left out unless said otherwise.
type object struct {
	dst   []byte
	start int // where the first member would be
}

func open(dst []byte) *object {
	dst = append(dst, '{')
	return &object{dst, len(dst)}
}

func (o *object) close() []byte { return append(o.dst, '}') }

// key writes a member's name, which is always toolguard's own plain word.
func (o *object) key(name string) {
	if len(o.dst) > o.start {
		o.dst = append(o.dst, ',')
	}
	o.dst = append(append(append(o.dst, '"'), name...), '"', ':')
}

func (o *object) text(name, value string) {
	if value != "" {
		o.key(name)
		o.dst = appendString(o.dst, value)
	}
}

// number writes also a zero: for what a reader requires.
func (o *object) number(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

func (o *object) count(name string, value uint64) {
	if value != 0 {
		o.key(name)
		o.dst = strconv.AppendUint(o.dst, value, 10)
	}
}

func (o *object) flag(name string, value bool) {
	o.key(name)
	o.dst = strconv.AppendBool(o.dst, value)
}

func (o *object) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.key(name)
	o.dst = append(o.dst, '[')
	for i, v := range values {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = appendString(o.dst, v)
	}
	o.dst = append(o.dst, ']')
}

// object writes a member that is an object. One that stays empty is taken back.
func (o *object) object(name string, fill func(*object)) {
	before := len(o.dst)
	o.key(name)
	in := open(o.dst)
	fill(in)
	if len(in.dst) == in.start {
		o.dst = in.dst[:before]
		return
	}
	o.dst = in.close()
}

// appendString writes a JSON string. What isn't UTF-8 becomes U+FFFD; controls, and the line separators and writing
// direction marks that are legal in JSON but not harmless in a terminal or a browser, are escaped.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == utf8.RuneError && n == 1:
			dst = append(dst, `\ufffd`...)
		case strconv.IsPrint(r):
			dst = append(dst, s[i:i+n]...)
		default:
			dst = appendEscape(dst, r)
		}
		i += n
	}
	return append(dst, '"')
}

// appendEscape writes \uXXXX, as a surrogate pair where one isn't enough.
func appendEscape(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendEscape(appendEscape(dst, 0xd800+(r>>10)), 0xdc00+(r&0x3ff))
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
