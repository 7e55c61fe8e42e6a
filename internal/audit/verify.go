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

// maxProblems is the maximum number of listed problems.
const maxProblems = 1000

// maxQuoted is the maximum length of a quotation from a record.
const maxQuoted = 500

// verifier verifies one spool.
type verifier struct {
	report.Report
	folder  string
	head    head
	trusted bool // the head's signature is valid
	key     string
	keys    map[string]bool // the set of Report.Keys
	file    string
	number  uint64
	line    int
	offset  int64

	begun       bool
	chained     bool // the previous line was a record of the spool, so that its hash is known
	previous    report.Problem
	hash        hash
	reached     bool   // the record at the head's end was found
	closed      bool   // it is the checkpoint "closed"
	inserted    bool   // a foreign record follows it
	opened      bool   // the records after the head's end begin with the checkpoint "opened"
	lastRemoved uint64 // the last record that the spool reports as removed
	signed      uint64 // the last record that a signature includes
}

// verifyTries is how often verification restarts because files were removed meanwhile.
const verifyTries = 20

// Verify reads a whole spool. With a key that the spool must have had, it also detects a spool that was rewritten with other keys.
// The error is about reading; the report has the findings.
func Verify(folder, key string, progress func(done, total int64)) (*report.Report, error) {
	for range verifyTries {
		v := &verifier{folder: folder, keys: map[string]bool{}, Report: report.Report{Problems: []report.Problem{}, Keys: []string{}}}
		if err := v.verify(key, progress); err != nil {
			return nil, err
		}
		h, err := readHead(folder)
		opened := v.inserted && err == nil && (h.End != v.head.End || h.Closed != v.head.Closed) // since
		if len(v.Problems) == 0 || !v.trusted || err == nil && h.Begin == v.head.Begin && !opened {
			return &v.Report, nil
		}
	}
	return nil, errors.New("files are created and removed faster than they can be read: try again, or verify a copy")
}

func (v *verifier) verify(key string, progress func(done, total int64)) error {
	if err := v.readHead(); err != nil {
		return err
	}
	list, err := files(v.folder)
	if isNotExist(err) || err == nil && len(list) == 0 && v.head.End.Sequence == 0 {
		return v.noAudit()
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
		return v.noAudit()
	}
	v.finish(key)
	return nil
}

func (v *verifier) noAudit() error {
	return fmt.Errorf("there is no audit in %s: toolguardd creates one when it starts", v.folder)
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
		v.Omitted++
		return
	}
	v.Problems = append(v.Problems, report.Problem{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (v *verifier) readHead() (err error) {
	for range 3 { // it may be incomplete during a write
		if v.head, err = readHead(v.folder); !errors.Is(err, errHead) {
			break
		}
	}
	switch {
	case isNotExist(err):
		v.problem(headName, 0, "the file is missing: the end of the spool is unknown, so that records may have been truncated")
	case errors.Is(err, errHead):
		v.problem(headName, 0, "the file is damaged: the end of the spool is unknown, so that records may have been truncated")
	case err != nil:
		return err
	case !verify(v.head.Key, v.head.text(), v.head.Signature):
		v.problem(headName, 0, "the signature is invalid: the file was changed")
	default:
		v.trusted = true
	}
	return nil
}

// removed reports whether the spool has removed a file, or was about to.
func (v *verifier) removed(number uint64) bool { return v.trusted && number < v.head.Begin.File }

func (v *verifier) readFile(number uint64, progress func(int64)) error {
	if v.removed(number) {
		return nil
	}
	f, err := openRegular(filepath.Join(v.folder, fileName(number)))
	if isNotExist(err) {
		return nil // startFile reports it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	v.startFile(number)
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

// startFile starts the next file, and reports missing ones before it.
func (v *verifier) startFile(number uint64) {
	from := v.number + 1
	if v.number == 0 {
		if from = number; v.trusted {
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

// pastEnd reports whether the current line is after the head's end.
func (v *verifier) pastEnd() bool {
	end := v.head.End
	return v.trusted && (v.number > end.File || v.number == end.File && v.offset >= end.Offset)
}

// check verifies the next line.
func (v *verifier) check(line []byte) {
	l, ok := parseLink(line)
	e, isSpoolEvent := parseSpoolEvent(line)
	if v.pastEnd() && ok && (v.closed || v.head.Opened && !v.opens(l, &e)) || v.inserted {
		if !v.inserted {
			v.problem(v.file, v.line, "this was inserted: the spool was closed, and has written nothing since")
		}
		v.inserted = true
		return
	}
	if v.pastEnd() && (!ok || v.begun && !v.follows(l)) || v.Unfinished > 0 {
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
		v.checkPosition(l)
	} else {
		v.firstRecord(l)
	}
	v.Records++
	v.Last, v.hash, v.chained = l.sequence, l.hash, true
	v.previous = report.Problem{File: v.file, Line: v.line}
	if v.trusted && l.sequence == v.head.End.Sequence {
		v.atHead()
	}
	if isSpoolEvent {
		v.spoolEvent(l, &e)
	}
}

// damaged reports a line that isn't as a spool writes it.
func (v *verifier) damaged(l link) {
	if l.sequence > 0 {
		v.problem(v.file, v.line, "record %d isn't as it was written", l.sequence)
		return
	}
	v.problem(v.file, v.line, "this isn't a record of a spool")
}

// opens reports whether the records after the head's end begin with a checkpoint of the key that has signed the head.
func (v *verifier) opens(l link, e *spoolEvent) bool {
	x := &e.Unmapped.Extra
	v.opened = v.opened || x.Key == v.head.Key && verify(x.Key, checkpointText(l, x.NextKey), x.Signature)
	return v.opened
}

func (v *verifier) follows(l link) bool {
	return l.chain == v.Chain && l.sequence == v.Last+1 && (!v.chained || l.previous == v.hash)
}

// firstRecord verifies the first record.
func (v *verifier) firstRecord(l link) {
	v.begun, v.Chain = true, l.chain
	first, previous := uint64(1), hash{}
	if v.trusted {
		first = v.head.Begin.Sequence + 1
		previous, _ = parseHash(v.head.Begin.Hash)
		v.Chain = v.head.Chain
	}
	v.First = l.sequence
	if v.Last > 0 { // other lines precede it
		first = l.sequence
	}
	v.Removed = first - 1
	switch {
	case l.chain != v.Chain:
		v.problem(v.file, v.line, "this record is of another spool, %s", l.chain)
	case l.sequence != first:
		v.problem(v.file, v.line, "the spool begins with record %d, and this is record %d: the records before it are missing", first, l.sequence)
	case l.previous != previous && v.Last == 0:
		v.problem(v.file, v.line, "this isn't the spool's first record: its link is another one")
	}
}

// checkPosition verifies that a record follows from its predecessor.
func (v *verifier) checkPosition(l link) {
	switch next := v.Last + 1; {
	case v.follows(l):
	case l.chain != v.Chain:
		v.problem(v.file, v.line, "this record is of another spool, %s", l.chain)
	case l.sequence > next:
		v.problem(v.file, v.line, "%s missing before this record, %d", records(next, l.sequence-1), l.sequence)
	case l.sequence < next:
		v.problem(v.file, v.line, "this is record %d, where record %d belongs: records were moved or inserted", l.sequence, next)
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

// atHead verifies the record that is the last one according to the head.
func (v *verifier) atHead() {
	v.reached, v.signed = true, v.Last
	if v.hash.String() != v.head.End.Hash {
		v.problem(v.file, v.line, "record %d isn't as it was written: the head signs another one", v.Last)
	}
}

// spoolEvent verifies the spool's own events, and counts gaps.
func (v *verifier) spoolEvent(l link, e *spoolEvent) {
	x := &e.Unmapped.Extra
	if e.Unmapped.Kind == string(event.Gap) {
		v.Gaps++
		v.Lost += e.Count
		if e.Count == 0 && x.Exact == "true" {
			v.Lost++ // a count of 1 is omitted
		}
		if x.Exact != "true" {
			v.Inexact++
		}
	}
	if n, err := strconv.ParseUint(x.Last, 10, 64); err == nil && x.First != "" && e.Unmapped.Mechanism == "spool" {
		v.lastRemoved, v.RemovedWhy = n, x.Why[:min(len(x.Why), maxQuoted)]
		if strings.Contains(x.Why, foreignRemoval) {
			v.problem(v.file, v.line, "some records were missing when the spool removed its oldest file: %s", v.RemovedWhy)
		}
	}
	if e.Unmapped.Kind != string(event.Checkpoint) {
		return
	}
	v.Checkpoints++
	v.closed = v.head.Closed && v.reached && l.sequence == v.head.End.Sequence && x.What == "closed"
	if !verify(x.Key, checkpointText(l, x.NextKey), x.Signature) {
		v.problem(v.file, v.line, "the signature of this checkpoint is invalid: a record before it was changed and chained again, or the checkpoint was changed")
		return
	}
	v.signed = l.sequence
	if v.key != "" && x.Key != v.key {
		v.problem(v.file, v.line, "this checkpoint is signed with the key %s, and the previous one named the key %s: the key was replaced, "+
			"or another process wrote what follows", x.Key, v.key)
	}
	v.addKey(x.Key)
	if v.key = x.Key; x.NextKey != "" {
		v.key = x.NextKey // it counts once it has signed: any process can name a key
	}
}

func (v *verifier) addKey(key string) {
	if !v.keys[key] {
		v.keys[key] = true
		v.Keys = append(v.Keys, key)
	}
}

// finish verifies the end of the spool.
func (v *verifier) finish(key string) {
	v.LastHash = v.hash.String()
	end := v.head.End
	switch {
	case !v.trusted:
	case v.lastRemoved != v.head.Begin.Sequence && v.head.UnreportedRemoval.Last != v.head.Begin.Sequence:
		v.problem(headName, 0, "the spool begins with record %d according to this file, and no record reports that the spool removed the records before it: another process did",
			v.head.Begin.Sequence+1)
	case v.Last < end.Sequence:
		v.problem(v.file, v.line, "the spool ends with record %d: %s truncated here", end.Sequence, records(v.Last+1, end.Sequence))
	case !v.reached && end.Sequence >= v.First && end.Sequence > 0:
		v.problem(headName, 0, "record %d, the last one according to this file, is missing", end.Sequence)
	case v.head.Key != v.key && !v.keys[v.head.Key]:
		v.problem(headName, 0, "the file is signed with the key %s, which no checkpoint names", v.head.Key)
	}
	if v.signed < v.Last {
		v.Unsigned = v.Last - v.signed
	}
	switch {
	case key == "" || v.keys[key]:
	case v.Removed > 0:
		v.problem(headName, 0, "none of the existing checkpoints is signed with the key %s, and the spool has removed those up to record %d: "+
			"so the origin of the rest can't be verified. If the last record that this key signed is older than that, note a newer key: verify prints the last one", key, v.Removed)
	default:
		v.problem(headName, 0, "none of the spool's checkpoints is signed with the key %s: another process wrote it", key)
	}
}
