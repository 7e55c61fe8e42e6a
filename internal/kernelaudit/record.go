package kernelaudit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The record types that are read (include/uapi/linux/audit.h).
const (
	typeLogin          = 1006
	typeTrustedApp     = 1121
	typeSyscall        = 1300
	typeConfigChange   = 1305
	typeSeccomp        = 1326
	typeLandlockAccess = 1423
	typeLandlockDomain = 1424
)

// unset is the audit session, or audit user, of a process that never logged in.
const unset = 1<<32 - 1

var errMalformed = errors.New("malformed audit record")

// record is one audit record, with its fields split but not decoded.
type record struct {
	kind   uint16
	time   time.Time
	serial uint64
	fields []field
}

// field is one field; its value is raw: still quoted or hexadecimal.
type field struct{ key, value string }

// get returns the raw value of a field.
func (r *record) get(key string) (value string, ok bool) {
	for i := range r.fields {
		if r.fields[i].key == key {
			return r.fields[i].value, true
		}
	}
	return "", false
}

// header parses the beginning of a record's text, "audit(SECONDS.MILLIS:SERIAL): ", and returns the rest, the fields.
func (r *record) header(text string) (string, error) {
	inner, ok := strings.CutPrefix(text, "audit(")
	stamp, rest, ok2 := strings.Cut(inner, "):")
	when, serial, ok3 := strings.Cut(stamp, ":")
	sec, milli, ok4 := strings.Cut(when, ".")
	s, err1 := strconv.ParseInt(sec, 10, 64)
	ms, err2 := strconv.ParseInt(milli, 10, 64)
	n, err3 := strconv.ParseUint(serial, 10, 64)
	if !ok || !ok2 || !ok3 || !ok4 || err1 != nil || err2 != nil || err3 != nil {
		return "", fmt.Errorf("%w: header", errMalformed)
	}
	r.time, r.serial = time.Unix(s, ms*int64(time.Millisecond)), n
	return rest, nil
}

// split splits `key=value key="value" …`. A quoted value has no quote inside (the kernel writes hexadecimal then), and no key
// comes twice.
func (r *record) split(s string) error {
	for {
		for s != "" && separates(s[0]) {
			s = s[1:]
		}
		if s == "" {
			return nil
		}
		key, rest, ok := strings.Cut(s, "=")
		if !ok || !plainKey(key) {
			return fmt.Errorf("%w: no key", errMalformed)
		}
		value, rest, err := splitValue(rest)
		if err != nil {
			return err
		}
		if _, twice := r.get(key); twice {
			return fmt.Errorf("%w: %s twice", errMalformed, key)
		}
		r.fields, s = append(r.fields, field{key, value}), rest
	}
}

// splitValue splits off one value with its quotes.
func splitValue(s string) (value, rest string, err error) {
	end := 0
	for ; end < len(s) && !separates(s[end]); end++ {
		if s[end] < 0x21 || s[end] > 0x7e {
			return "", "", fmt.Errorf("%w: a value that the kernel would have written in hexadecimal", errMalformed)
		}
	}
	value = s[:end]
	if strings.HasPrefix(value, `"`) && (end == 1 || strings.IndexByte(value[1:], '"') != end-2) {
		return "", "", fmt.Errorf("%w: a quote that doesn't end with its value", errMalformed)
	}
	return value, s[end:], nil
}

func separates(c byte) bool { return c == ' ' || c == 0 }

// plainKey reports whether s looks like the kernel's field names.
func plainKey(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// text decodes an untrusted string, which is quoted or in hexadecimal. "(null)" and "(none)" are empty.
func (r *record) text(key string) (string, error) {
	v, ok := r.get(key)
	switch {
	case !ok || v == "(null)" || v == "(none)" || v == "?":
		return "", nil
	case len(v) >= 2 && v[0] == '"':
		return v[1 : len(v)-1], nil
	}
	b, err := hex.DecodeString(v)
	if err != nil {
		return "", fmt.Errorf("%w: %s is neither quoted nor hexadecimal", errMalformed, key)
	}
	return string(b), nil
}

// number decodes a number in base 10 or 16; def if the field is missing.
func (r *record) number(key string, base int, def int64) (int64, error) {
	v, ok := r.get(key)
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(v, base, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(v, base, 64)
		if uerr != nil {
			return 0, fmt.Errorf("%w: %s=%q", errMalformed, key, v)
		}
		n = int64(u) // an inode or a domain above 2^63 keeps its bits
	}
	return n, nil
}

// decoder reads several fields and keeps the first error.
type decoder struct {
	r   *record
	err error
}

func (d *decoder) text(key string) string {
	s, err := d.r.text(key)
	d.fail(err)
	return s
}

func (d *decoder) number(key string, base int, def int64) int64 {
	n, err := d.r.number(key, base, def)
	d.fail(err)
	return n
}

// need fails if a required field is missing.
func (d *decoder) need(key string) {
	if _, ok := d.r.get(key); !ok {
		d.fail(fmt.Errorf("%w: type %d without %s", errMalformed, d.r.kind, key))
	}
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}
