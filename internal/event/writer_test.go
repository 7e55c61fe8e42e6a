package event

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestWriterNumbers writes from many goroutines through a queue into a real pipe: every line whole, every number once.
func TestWriterNumbers(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(out, OCSF)
	if err != nil {
		t.Fatal(err)
	}
	const goroutines, each = 8, 200
	q := NewQueue(w)
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
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var e struct {
			Metadata struct {
				UID      string
				Sequence int
			}
			Unmapped struct{ Boot string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		n++
		if e.Metadata.Sequence != n || uids[e.Metadata.UID] || len(e.Unmapped.Boot) != 36 {
			t.Fatalf("line %d: %+v", n, e)
		}
		uids[e.Metadata.UID] = true
	}
	if n != goroutines*each {
		t.Errorf("%d lines of %d", n, goroutines*each)
	}
}

// TestWriterMasks also shows that the caller's event stays as it is.
func TestWriterMasks(t *testing.T) {
	var b bytes.Buffer
	for _, f := range []Format{OCSF, ECS, Text} {
		w, err := NewWriter(&b, f)
		if err != nil {
			t.Fatal(err)
		}
		e := denial("net", "connect", "https://user:hunter2@example.com/?hunter2=hunter2")
		e.Asked = "http://hunter2@x/?hunter2"
		e.Process[0].Argv = []string{"x", "--password", "hunter2", "API_TOKEN=hunter2"}
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
		if e.Process[0].Argv[2] != "hunter2" || e.Sequence != 3 {
			t.Errorf("the event was changed: %+v", e)
		}
	}
	if strings.Contains(b.String(), "hunter2") || !strings.Contains(b.String(), "example.com") {
		t.Error(b.String())
	}
}

// disk fails once it is full, and then works again.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	if d.room >= len(p) {
		d.room -= len(p)
		return d.Buffer.Write(p)
	}
	n, _ := d.Buffer.Write(p[:d.room])
	d.room = 0
	return n, errDisk
}

var errDisk = errors.New("full")

// TestWriterAfterFailure: an event that wasn't written leaves no trace, a torn one leaves a gap and no torn neighbour.
func TestWriterAfterFailure(t *testing.T) {
	d := &disk{room: 1 << 20}
	w, err := NewWriter(d, OCSF)
	if err != nil {
		t.Fatal(err)
	}
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
	d.room = 0
	must(write("unwritten"), errDisk)
	d.room = 1 << 20
	must(write("two"), nil)
	d.room = 100
	must(write("torn"), errDisk)
	d.room = 1 << 20
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
