package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLong is a line that no spool has written.
var errLong = errors.New("the line is longer than any of a spool's")

// readLine reads a line with its newline. At the end of the file it returns what there is, and io.EOF. Of a line that is too long it
// returns nothing, and errLong; the next one is read next.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && line == nil {
			return part, nil // until the next read
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

// skipLine reads on to the end of a line that is too long.
func skipLine(r *bufio.Reader, err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errLong
}

// isTorn tells whether a line has no end.
func isTorn(line []byte) bool { return !bytes.HasSuffix(line, []byte("\n")) }
