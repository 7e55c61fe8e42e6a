package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/toolguard/toolguard/internal/event"
)

// stand is what records stand for, as a gap in their place tells it: denials and programs, those that gaps among them count, too.
type stand struct {
	Count   uint64 `json:"count,omitempty"`
	Execs   uint64 `json:"execs,omitempty"`   // of them, programs
	Inexact bool   `json:"inexact,omitempty"` // there may be more
}

func (s stand) and(o stand) stand {
	return stand{s.Count + o.Count, s.Execs + o.Execs, s.Inexact || o.Inexact}
}

// standOf reads a file for what its records stand for.
func (s *Spool) standOf(number uint64) (all stand, err error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return all, err
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := readLine(r)
		all = all.and(standOfLine(line))
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil && !errors.Is(err, errLong) {
			return all, err
		}
	}
}

// standOfLine looks at a line's members without reading all of it: in what others said quotation marks have backslashes.
func standOfLine(line []byte) stand {
	_, rest, _ := bytes.Cut(line, []byte(`"unmapped":{"kind":"`))
	kind, _, _ := bytes.Cut(rest, []byte(`"`))
	n := member(line, `,"count":`)
	switch event.Kind(kind) {
	case event.Denial:
		return stand{Count: max(1, n)}
	case event.Exec:
		return stand{Count: max(1, n), Execs: max(1, n)}
	case event.Gap:
		exact := bytes.Contains(rest, []byte(`"exact":"true"`))
		if exact {
			n = max(1, n) // one is left out
		}
		return stand{Count: n, Execs: member(rest, `,"execs":`), Inexact: !exact}
	}
	return stand{}
}

func member(line []byte, name string) (n uint64) {
	_, rest, _ := bytes.Cut(line, []byte(name))
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end > 0 {
		n, _ = strconv.ParseUint(string(rest[:end]), 10, 63)
	}
	return n
}
