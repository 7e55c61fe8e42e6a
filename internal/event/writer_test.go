package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestWriterNumbers writes from many goroutines through a queue into a pipe: every line is complete, every number occurs once.
func TestWriterNumbers(t *testing.T) {
	q, lines, out := pipeQueue(t)
	const goroutines, each = 8, 200
	go func() {
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					e := denial("fs", "read", strings.Repeat("x", 3000)+fmt.Sprint(g, i))
					q.Write(&e)
				}
			})
		}
		wg.Wait()
		if missing, err := q.Close(); missing != 0 || err != nil {
			t.Errorf("%d are missing: %v", missing, err)
		}
		out.Close()
	}()
	uids := map[string]bool{}
	for n := range goroutines * each {
		e := readEvent(t, lines)
		if m := e.Metadata; m.Sequence != uint64(n+1) || uids[m.UID] || len(e.Unmapped.Boot) != 36 {
			t.Fatalf("line %d: %+v", n+1, e)
		}
		uids[e.Metadata.UID] = true
	}
	if lines.Scan() {
		t.Errorf("one more: %s", lines.Text())
	}
}

// disk fails when it is full, and works again when it has capacity.
type disk struct {
	bytes.Buffer
	capacity int
}

func (d *disk) Write(p []byte) (int, error) {
	if d.capacity >= len(p) {
		d.capacity -= len(p)
		return d.Buffer.Write(p)
	}
	n, _ := d.Buffer.Write(p[:d.capacity])
	d.capacity = 0
	return n, errDisk
}

var errDisk = errors.New("full")

// TestWriterAfterFailure checks that an unwritten event uses no number, and that a torn line costs only its own number.
func TestWriterAfterFailure(t *testing.T) {
	d := &disk{capacity: 1 << 20}
	w, err := NewWriter(d, OCSF)
	must(t, err)
	write := func(target string) error {
		e := denial("fs", "read", target)
		return w.Write(&e)
	}
	must := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	must(write("one"), nil)
	d.capacity = 0
	must(write("unwritten"), errDisk)
	d.capacity = 1 << 20
	must(write("two"), nil)
	d.capacity = 100
	must(write("torn"), errDisk)
	d.capacity = 1 << 20
	must(write("four"), nil)
	var got []string
	for line := range strings.Lines(d.String()) {
		var e struct {
			Metadata struct{ Sequence int }
			File     struct{ Path string }
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			got = append(got, "torn")
			continue
		}
		got = append(got, fmt.Sprint(e.Metadata.Sequence, e.File.Path))
	}
	if s := strings.Join(got, " "); s != "1one 2two torn 4four" {
		t.Error(s)
	}
}
