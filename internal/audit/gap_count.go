package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/toolguard/toolguard/internal/event"
)

// lossCount counts the denials and executed programs in removed records, with those that gaps among the records count.
type lossCount struct {
	Count   uint64 `json:"count,omitempty"`
	Execs   uint64 `json:"execs,omitempty"`   // of them, programs
	Inexact bool   `json:"inexact,omitempty"` // there may be more
}

func (s lossCount) plus(o lossCount) lossCount {
	return lossCount{s.Count + o.Count, s.Execs + o.Execs, s.Inexact || o.Inexact}
}

// countLosses counts the events in a file.
func (s *Spool) countLosses(number uint64) (all lossCount, err error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return all, err
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := readLine(r)
		all = all.plus(countLine(line))
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil && !errors.Is(err, errLong) {
			return all, err
		}
	}
}

// countLine searches a line for members without parsing it. Strings can't contain them, because JSON escapes their quotation marks.
func countLine(line []byte) lossCount {
	_, rest, _ := bytes.Cut(line, []byte(`"unmapped":{"kind":"`))
	kind, _, _ := bytes.Cut(rest, []byte(`"`))
	n := member(line, `,"count":`)
	switch event.Kind(kind) {
	case event.Denial:
		return lossCount{Count: max(1, n)}
	case event.Exec:
		return lossCount{Count: max(1, n), Execs: max(1, n)}
	case event.Gap:
		exact := bytes.Contains(rest, []byte(`"exact":"true"`))
		if exact {
			n = max(1, n) // a count of 1 is omitted
		}
		return lossCount{Count: n, Execs: member(rest, `,"execs":`), Inexact: !exact}
	}
	return lossCount{}
}

func member(line []byte, name string) (n uint64) {
	_, rest, _ := bytes.Cut(line, []byte(name))
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end > 0 {
		n, _ = strconv.ParseUint(string(rest[:end]), 10, 63)
	}
	return n
}
