package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLong is the error for a line that no spool has written.
var errLong = errors.New("the line is longer than the maximum")

// readLine reads a line with its newline. At the end of the file, it returns the rest and io.EOF. For a line that is too long, it
// returns nil and errLong, and the next call reads the next line.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && line == nil {
			return part, nil // valid until the next read
		}
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, skipLine(r, err)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// skipLine reads to the end of a line that is too long.
func skipLine(r *bufio.Reader, err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errLong
}

// isTorn reports whether a line has no newline.
func isTorn(line []byte) bool { return !bytes.HasSuffix(line, []byte("\n")) }
