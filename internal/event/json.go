package event

import (
	"strconv"
	"unicode/utf8"
)

// object writes one JSON object. Its methods omit empty strings, zero numbers and objects without members unless documented.
type object struct {
	dst   []byte
	start int // the offset of the first member
}

func open(dst []byte) *object {
	dst = append(dst, '{')
	return &object{dst, len(dst)}
}

func (o *object) close() []byte { return append(o.dst, '}') }

// key writes a member's name, which needs no escaping: every name is a constant, or has been through plainKey.
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

// number also writes a zero, for members that the schema requires.
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

// object writes a member that is an object, and omits it if fill writes nothing.
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

// appendString writes a JSON string. Bytes that aren't UTF-8 become U+FFFD. It escapes control characters, and also line
// separators and writing direction marks, which JSON permits but which a terminal or a browser interprets.
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

// appendEscape writes \uXXXX, above U+FFFF as a surrogate pair.
func appendEscape(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendEscape(appendEscape(dst, 0xd800+(r>>10)), 0xdc00+(r&0x3ff))
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
