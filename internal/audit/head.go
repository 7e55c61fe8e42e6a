package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/toolguard/toolguard/internal/event"
)

const headName = "head"

// headSize is as much as is written at a time, so that a shorter head leaves nothing of a longer one.
const headSize = 1024

var errHead = errors.New("it's damaged")

// place is a place between two lines.
type place struct {
	File     uint64 `json:"file"`
	Offset   int64  `json:"offset"`
	Sequence uint64 `json:"sequence"` // of the line before
	Hash     string `json:"hash"`     // of that line
}

// head says where a spool begins and ends.
type head struct {
	Chain     string `json:"chain"`
	Begin     place  `json:"begin"`
	End       place  `json:"end"`
	Closed    bool   `json:"closed,omitempty"` // nothing comes after
	Opened    bool   `json:"opened,omitempty"` // likewise, but for what begins with a checkpoint of the key that has signed this
	Key       string `json:"key"`
	Signature string `json:"signature,omitempty"`

	Gone  removed `json:"gone,omitzero"`
	Began int64   `json:"began,omitempty"` // when the file was begun in which it ends, in seconds since 1970
}

// removed are records that were removed, in files that were removed, and of which nothing in the spool tells yet.
type removed struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Shipped bool   `json:"shipped,omitempty"` // every sink has all of them
	Stand   stand  `json:"stand,omitzero"`    // what they told
}

// and is one and another one after it.
func (r removed) and(other removed) removed {
	if r == (removed{}) {
		return other
	}
	return removed{r.First, other.Last, r.Shipped && other.Shipped, r.Stand.and(other.Stand)}
}

// told is how they're told of.
func (r removed) told(why string) event.Event {
	why = fmt.Sprintf("records %d to %d%s", r.First, r.Last, why)
	e := lost(r.Stand.Count, why)
	e.Execs = r.Stand.Execs
	switch {
	case r.Shipped:
		e = kept(why + ": every sink has them, as the shipper says")
	case r.Stand.Inexact:
		e.Extra["exact"] = "false"
	case r.Stand.Count == 0:
		e = kept(why + ": they told of nothing that was refused or executed")
	}
	e.Extra["first"], e.Extra["last"] = strconv.FormatUint(r.First, 10), strconv.FormatUint(r.Last, 10)
	return e
}

// kept is the removal of what nobody misses.
func kept(why string) event.Event {
	return event.Event{Kind: event.Daemon, Mechanism: "spool", Extra: map[string]string{"what": "removed from the audit", "why": why}}
}

// text is what a head's signature is of: itself without one.
func (h head) text() string {
	h.Signature = ""
	text, _ := json.Marshal(h) // all of it can be
	return "toolguard audit head\n" + string(text)
}

func readHead(folder string) (h head, err error) {
	text, err := readSmall(filepath.Join(folder, headName), 2*headSize)
	if err != nil && !errors.Is(err, errSize) {
		return h, err
	}
	_ = json.Unmarshal(text, &h) // what it can't read isn't as it's written
	if h.Chain == "" || !bytes.Equal(text, h.line()) {
		return head{}, errHead
	}
	return h, nil
}

// line is a head as it's written. No other spelling of the same is one.
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
