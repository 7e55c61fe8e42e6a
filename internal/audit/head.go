package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

const headName = "head"

// headSize is the size of every head, so that a write replaces the previous head completely.
const headSize = 1024

var errHead = errors.New("the head is damaged")

// recordPosition is a position between two lines of a spool.
type recordPosition struct {
	File     uint64 `json:"file"`
	Offset   int64  `json:"offset"`
	Sequence uint64 `json:"sequence"` // of the line before
	Hash     string `json:"hash"`     // of that line
}

// head has the positions of a spool's beginning and end.
type head struct {
	Chain     string         `json:"chain"`
	Begin     recordPosition `json:"begin"`
	End       recordPosition `json:"end"`
	Closed    bool           `json:"closed,omitempty"` // no records follow
	Opened    bool           `json:"opened,omitempty"` // only records follow that begin with a checkpoint of the key that has signed this
	Key       string         `json:"key"`
	Signature string         `json:"signature,omitempty"`

	UnreportedRemoval removed `json:"gone,omitzero"`
	Began             int64   `json:"began,omitempty"` // when the last file was created, in seconds since 1970
}

// removed is a range of records whose files the spool has removed, and that no record reports yet.
type removed struct {
	First   uint64    `json:"first"`
	Last    uint64    `json:"last"`
	Shipped bool      `json:"shipped,omitempty"` // every sink has all of them
	Lost    lossCount `json:"stand,omitzero"`    // reported in them
}

// plus returns the union with a following range.
func (r removed) plus(other removed) removed {
	if r == (removed{}) {
		return other
	}
	return removed{r.First, other.Last, r.Shipped && other.Shipped, r.Lost.plus(other.Lost)}
}

// gap returns the event that reports the range.
func (r removed) gap(why string) event.Event {
	why = fmt.Sprintf("records %d to %d%s", r.First, r.Last, why)
	e := exactGap(r.Lost.Count, why)
	e.Execs = r.Lost.Execs
	switch {
	case r.Shipped:
		e = infoEvent(why + ": the shipper reports that every sink has them")
	case r.Lost.Inexact:
		e.Extra["exact"] = "false"
	case r.Lost.Count == 0:
		e = infoEvent(why + ": they reported no denials and no executed programs")
	}
	e.Extra["first"], e.Extra["last"] = strconv.FormatUint(r.First, 10), strconv.FormatUint(r.Last, 10)
	return e
}

// infoEvent returns a daemon event about a removal without loss.
func infoEvent(why string) event.Event {
	return event.Event{Kind: event.Daemon, Mechanism: "spool", Extra: map[string]string{"what": "removed from the audit", "why": why}}
}

// text returns the text that the head's signature signs: the head without it.
func (h head) text() string {
	h.Signature = ""
	text, _ := json.Marshal(h) // all of it can be
	return "toolguard audit head\n" + string(text)
}

// readHead reads the head. To a reader, a write isn't atomic: it can get a part of the new head and a part of the one before. So a head that
// is damaged is read again.
func readHead(folder string) (h head, err error) {
	for range 4 {
		if h, err = readHeadOnce(folder); !errors.Is(err, errHead) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return h, err
}

func readHeadOnce(folder string) (h head, err error) {
	text, err := readSmall(filepath.Join(folder, headName), 2*headSize)
	if err != nil && !errors.Is(err, errSize) {
		return h, err
	}
	_ = json.Unmarshal(text, &h) // a head that can't be parsed differs from the written one
	if h.Chain == "" || !bytes.Equal(text, h.line()) {
		return head{}, errHead
	}
	return h, nil
}

// line returns the head as it is written. No other spelling is valid.
func (h head) line() []byte {
	text, _ := json.Marshal(h)
	text = append(text, bytes.Repeat([]byte(" "), max(0, headSize-1-len(text)))...)
	return append(text, '\n')
}

// write signs a head and writes it at once.
func (h head) write(f *os.File, k key) error {
	h.Key = k.public()
	h.Signature = k.sign(h.text())
	_, err := f.WriteAt(h.line(), 0)
	return err
}
