package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/audit/report"
	"github.com/toolguard/toolguard/internal/event"
)

// maxProblems bounds how many problems are told one by one.
const maxProblems = 1000

// maxWhy bounds what is repeated of a record's words.
const maxWhy = 500

// verifier goes through a spool.
type verifier struct {
	report.Report
	folder string
	head   head
	known  bool // the head can be believed
	key    string
	keys   map[string]bool // those of the report
	file   string
	number uint64
	line   int
	offset int64

	begun    bool
	chained  bool // the line before was one of the spool's: its hash counts
	previous report.Problem
	hash     hash
	reached  bool   // the head's end was there
	closed   bool   // and it says that the spool was closed
	put      bool   // something comes after that
	opened   bool   // what comes after the head's end begins as the spool would begin it
	removal  uint64 // the last record that the spool says it has removed itself
	signed   uint64 // the last record that a signature speaks for
}

// verifyTries is how often files may be removed to make room while a spool is verified.
const verifyTries = 20

// Verify reads a whole spool. With a key that the spool must have had, what was written anew with other keys is found too. An error is that of
// reading; what was found is in the report.
func Verify(folder, key string, progress func(done, total int64)) (*report.Report, error) {
	for range verifyTries {
		v := &verifier{folder: folder, keys: map[string]bool{}, Report: report.Report{Problems: []report.Problem{}, Keys: []string{}}}
		if err := v.verify(key, progress); err != nil {
			return nil, err
		}
		h, err := readHead(folder)
		opened := v.put && err == nil && (h.End != v.head.End || h.Closed != v.head.Closed) // since
		if len(v.Problems) == 0 || !v.known || err == nil && h.Begin == v.head.Begin && !opened {
			return &v.Report, nil
		}
	}
	return nil, errors.New("files are begun and removed to make room faster than they can be read: try again, or verify a copy")
}

func (v *verifier) verify(key string, progress func(done, total int64)) error {
	if err := v.readHead(); err != nil {
		return err
	}
	list, err := files(v.folder)
	if absent(err) || err == nil && len(list) == 0 && v.head.End.Sequence == 0 {
		return v.none()
	}
	if err != nil {
		return err
	}
	total := size(v.folder, list)
	var read int64
	for _, n := range list {
		if err := v.readFile(n, func(more int64) { read += more; progress(read, total) }); err != nil {
			return err
		}
	}
	if v.Records == 0 && v.head.End.Sequence == 0 && len(v.Problems) == 0 {
		return v.none()
	}
	v.finish(key)
	return nil
}

func (v *verifier) none() error {
	return fmt.Errorf("there is no audit in %s: toolguardd makes one when it's started", v.folder)
}

func size(folder string, list []uint64) (total int64) {
	for _, n := range list {
		if info, err := os.Stat(filepath.Join(folder, fileName(n))); err == nil {
			total += info.Size()
		}
	}
	return total
}

func (v *verifier) problem(file string, line int, format string, args ...any) {
	if len(v.Problems) == maxProblems {
		v.Untold++
		return
	}
	v.Problems = append(v.Problems, report.Problem{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (v *verifier) readHead() (err error) {
	for range 3 { // it may be written just now
		if v.head, err = readHead(v.folder); !errors.Is(err, errHead) {
			break
		}
	}
	switch {
	case absent(err):
		v.problem(headName, 0, "it's missing: nothing says where the spool ends, so that records may have been cut off")
	case errors.Is(err, errHead):
		v.problem(headName, 0, "it's damaged: nothing says where the spool ends, so that records may have been cut off")
	case err != nil:
		return err
	case !verify(v.head.Key, v.head.text(), v.head.Signature):
		v.problem(headName, 0, "its signature doesn't hold: it was changed")
	default:
		v.known = true
	}
	return nil
}

// removed tells whether a file is one that the spool has removed, or was about to.
func (v *verifier) removed(number uint64) bool { return v.known && number < v.head.Begin.File }

func (v *verifier) readFile(number uint64, progress func(int64)) error {
	if v.removed(number) {
		return nil
	}
	f, err := openRegular(filepath.Join(v.folder, fileName(number)))
	if absent(err) {
		return nil // it's missed by the next one
	}
	if err != nil {
		return err
	}
	defer f.Close()
	v.enter(number)
	var done int64
	for r := bufio.NewReaderSize(f, 256<<10); ; {
		line, err := readLine(r)
		if len(line) > 0 || errors.Is(err, errLong) {
			v.line++
			v.check(line)
			v.offset += int64(len(line))
		}
		if done += int64(len(line)); done >= 1<<20 || err != nil {
			progress(done)
			done = 0
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil && !errors.Is(err, errLong) {
			return err
		}
	}
}

// enter begins a file.
func (v *verifier) enter(number uint64) {
	from := v.number + 1
	if v.number == 0 {
		if from = number; v.known {
			from = v.head.Begin.File
		}
	}
	if number > from+maxProblems {
		v.problem(fileName(from), 0, "this file and %d more up to %s are missing", number-from-1, fileName(number))
		from = number
	}
	for ; from < number; from++ {
		v.problem(fileName(from), 0, "the file is missing")
	}
	v.file, v.number, v.line, v.offset = fileName(number), number, 0, 0
	v.Files++
}

// beyond tells whether what is being read was never said to be on the disk.
func (v *verifier) beyond() bool {
	end := v.head.End
	return v.known && (v.number > end.File || v.number == end.File && v.offset >= end.Offset)
}

// check looks at the next line.
func (v *verifier) check(line []byte) {
	l, ok := parseLink(line)
	e, told := parseTold(line)
	if v.beyond() && ok && (v.closed || v.head.Opened && !v.opens(l, &e)) || v.put {
		if !v.put {
			v.problem(v.file, v.line, "this was put in: the spool was closed, and hasn't written anything since")
		}
		v.put = true
		return
	}
	if v.beyond() && (!ok || v.begun && !v.follows(l)) || v.Unfinished > 0 {
		v.Unfinished += int64(len(line))
		return
	}
	if !ok {
		v.damaged(l)
		v.Last++
		v.chained = false
		return
	}
	if v.begun {
		v.place(l)
	} else {
		v.start(l)
	}
	v.Records++
	v.Last, v.hash, v.chained = l.sequence, l.hash, true
	v.previous = report.Problem{File: v.file, Line: v.line}
	if v.known && l.sequence == v.head.End.Sequence {
		v.atHead()
	}
	if told {
		v.told(l, &e)
	}
}

// damaged tells of a line that isn't as a spool writes them.
func (v *verifier) damaged(l link) {
	if l.sequence > 0 {
		v.problem(v.file, v.line, "record %d isn't as it was written", l.sequence)
		return
	}
	v.problem(v.file, v.line, "this isn't a record as a spool writes them")
}

// opens tells whether what comes after the head's end begins with a checkpoint of the key that has signed the head.
func (v *verifier) opens(l link, e *told) bool {
	x := &e.Unmapped.Extra
	v.opened = v.opened || x.Key == v.head.Key && verify(x.Key, checkpointText(l, x.NextKey), x.Signature)
	return v.opened
}

func (v *verifier) follows(l link) bool {
	return l.chain == v.Chain && l.sequence == v.Last+1 && (!v.chained || l.previous == v.hash)
}

// start takes the first record in.
func (v *verifier) start(l link) {
	v.begun, v.Chain = true, l.chain
	first, previous := uint64(1), hash{}
	if v.known {
		first = v.head.Begin.Sequence + 1
		previous, _ = parseHash(v.head.Begin.Hash)
		v.Chain = v.head.Chain
	}
	v.First = l.sequence
	if v.Last > 0 { // lines before it that aren't records
		first = l.sequence
	}
	v.Removed = first - 1
	switch {
	case l.chain != v.Chain:
		v.problem(v.file, v.line, "this record is of another spool, %s", l.chain)
	case l.sequence != first:
		v.problem(v.file, v.line, "the spool begins with record %d, and this is record %d: what was before it is missing", first, l.sequence)
	case l.previous != previous && v.Last == 0:
		v.problem(v.file, v.line, "this isn't the spool's first record: its link isn't the one that the spool begins with")
	}
}

// place tells whether a record is the one after the one before it.
func (v *verifier) place(l link) {
	switch next := v.Last + 1; {
	case v.follows(l):
	case l.chain != v.Chain:
		v.problem(v.file, v.line, "this record is of another spool, %s", l.chain)
	case l.sequence > next:
		v.problem(v.file, v.line, "%s missing before this record, %d", records(next, l.sequence-1), l.sequence)
	case l.sequence < next:
		v.problem(v.file, v.line, "this is record %d, where record %d belongs: records were moved or put in", l.sequence, next)
	default:
		p := v.previous
		v.problem(p.File, p.Line, "record %d isn't as it was written, or the link to it in %s:%d isn't", v.Last, v.file, v.line)
	}
}

func records(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("record %d is", first)
	}
	return fmt.Sprintf("records %d to %d are", first, last)
}

// atHead is for the record that the head says is the last one.
func (v *verifier) atHead() {
	v.reached, v.signed = true, v.Last
	if v.hash.String() != v.head.End.Hash {
		v.problem(v.file, v.line, "record %d isn't as it was written: the head has signed another one", v.Last)
	}
}

// told is for what the spool says of itself.
func (v *verifier) told(l link, e *told) {
	x := &e.Unmapped.Extra
	if e.Unmapped.Kind == string(event.Gap) {
		v.Gaps++
		v.Lost += e.Count
		if e.Count == 0 && x.Exact == "true" {
			v.Lost++ // a count of one is left out
		}
		if x.Exact != "true" {
			v.Inexact++
		}
	}
	if n, err := strconv.ParseUint(x.Last, 10, 64); err == nil && x.First != "" && e.Unmapped.Mechanism == "spool" {
		v.removal, v.RemovedWhy = n, x.Why[:min(len(x.Why), maxWhy)]
		if strings.Contains(x.Why, othersRemoved) {
			v.problem(v.file, v.line, "the spool has missed some when it made room: %s", v.RemovedWhy)
		}
	}
	if e.Unmapped.Kind != string(event.Checkpoint) {
		return
	}
	v.Checkpoints++
	v.closed = v.head.Closed && v.reached && l.sequence == v.head.End.Sequence && x.What == "closed"
	if !verify(x.Key, checkpointText(l, x.NextKey), x.Signature) {
		v.problem(v.file, v.line, "the signature of this checkpoint doesn't hold: something before it was changed and chained anew, or the checkpoint was")
		return
	}
	v.signed = l.sequence
	if v.key != "" && x.Key != v.key {
		v.problem(v.file, v.line, "this checkpoint is signed with the key %s, and the one before says that it would be %s: the key was replaced, "+
			"or what follows was written by somebody else", x.Key, v.key)
	}
	v.seen(x.Key)
	if v.key = x.Key; x.NextKey != "" {
		v.key = x.NextKey // it counts once it has signed: anybody can name another one's
	}
}

func (v *verifier) seen(key string) {
	if !v.keys[key] {
		v.keys[key] = true
		v.Keys = append(v.Keys, key)
	}
}

// finish looks at what shows at the end.
func (v *verifier) finish(key string) {
	v.LastHash = v.hash.String()
	end := v.head.End
	switch {
	case !v.known:
	case v.removal != v.head.Begin.Sequence && v.head.Gone.Last != v.head.Begin.Sequence:
		v.problem(headName, 0, "it says that the spool begins with record %d, and the spool doesn't say that it has removed what was before: somebody else has",
			v.head.Begin.Sequence+1)
	case v.Last < end.Sequence:
		v.problem(v.file, v.line, "the spool went on to record %d: %s cut off here", end.Sequence, records(v.Last+1, end.Sequence))
	case !v.reached && end.Sequence >= v.First && end.Sequence > 0:
		v.problem(headName, 0, "record %d, which it says is the last one, isn't there", end.Sequence)
	case v.head.Key != v.key && !v.keys[v.head.Key]:
		v.problem(headName, 0, "it's signed with the key %s, which no checkpoint vouches for", v.head.Key)
	}
	if v.signed < v.Last {
		v.Unsigned = v.Last - v.signed
	}
	switch {
	case key == "" || v.keys[key]:
	case v.Removed > 0:
		v.problem(headName, 0, "none of the checkpoints that are there is signed with the key %s, and the spool says that it has removed those up to record %d: "+
			"so nothing tells who has written it. Where the last record that this key had signed is older than that, note a newer key: verify prints the last one", key, v.Removed)
	default:
		v.problem(headName, 0, "none of the spool's checkpoints is signed with the key %s: all of it was written by somebody else", key)
	}
}
