// Package jsonline reads lines of JSON that another program writes, each of a bounded length, and objects with known keys alone, and answers
// each line with one. Pure.
package jsonline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// TooLong is the error for a line of more than that many bytes.
type TooLong int

func (n TooLong) Error() string { return fmt.Sprintf("the line is longer than %d bytes", int(n)) }

// Read returns the next line that isn't blank, without the space around it. It skips a line that has more than most bytes, and returns
// TooLong. Any other error is the reader's; at the end it's io.EOF.
func Read(in *bufio.Reader, most int) ([]byte, error) {
	for {
		var line []byte
		long := false
		for {
			part, err := in.ReadSlice('\n')
			if long = long || len(line)+len(part) > most; !long {
				line = append(line, part...)
			}
			if err == nil || (errors.Is(err, io.EOF) && (long || len(line) > 0)) {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
		}
		if long {
			return nil, TooLong(most)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// Answer answers lines of at most so many bytes until there are no more, each with one line. A line that is longer is passed on with its
// error alone. worst is the largest code of all answers. An error is one of reading or writing.
func Answer(r io.Reader, w io.Writer, most int, reply func(line []byte, err error) (answer any, code int)) (worst int, err error) {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for {
		line, err := Read(in, most)
		if errors.Is(err, io.EOF) {
			return worst, out.Flush()
		}
		if long := TooLong(0); err != nil && !errors.As(err, &long) {
			return worst, err
		}
		answer, code := reply(line, err)
		worst = max(worst, code)
		if err := lines.Encode(answer); err != nil {
			return worst, err
		}
		if in.Buffered() == 0 { // the client may wait for the answer before it asks the next question
			if err := out.Flush(); err != nil {
				return worst, err
			}
		}
	}
}

// Decode reads one JSON object into the struct at v. encoding/json accepts keys in any case, and the last of several
// equal ones, so that two readers could read the same question differently. Decode rejects both.
func Decode(line []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	fields := map[string]reflect.Value{}
	for i, s := 0, reflect.ValueOf(v).Elem(); i < s.NumField(); i++ {
		fields[s.Type().Field(i).Tag.Get("json")] = s.Field(i)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		f, ok := fields[t.(string)] // a key: the decoder accepts nothing else here
		if !ok {
			return fmt.Errorf("unknown or repeated key %q", t)
		}
		delete(fields, t.(string))
		if err := dec.Decode(f.Addr().Interface()); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return fmt.Errorf("%q can't be a %s", t, wrong.Value)
			}
			return fmt.Errorf("not JSON: %w", err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("not JSON: the object doesn't end")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON object on the line")
	}
	return nil
}
