package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/audit/report"
)

// auditCommand does the work of `toolguard audit`: `toolguardd audit verify|export … DIR`. It prints JSON, for toolguard alone.
func auditCommand(args []string) error {
	if len(args) < 2 {
		return errors.New("'toolguard audit' is for that")
	}
	flags := flag.NewFlagSet("toolguardd audit", flag.ContinueOnError)
	key := flags.String("key", "", "")
	var want audit.Filter
	flags.Uint64Var(&want.From, "from", 0, "")
	flags.Uint64Var(&want.To, "to", 0, "")
	flags.StringVar(&want.Session, "session", "", "")
	flags.StringVar(&want.Kind, "kind", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	switch folder := flags.Arg(0); args[0] {
	case "verify":
		err = verifyAudit(folder, *key)
	case "export":
		err = exportAudit(folder, want)
	default:
		err = fmt.Errorf("there is no audit command %q", args[0])
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the audit is root's; ask as root, or have a copy of the folder", err)
	}
	return err
}

// verifyAudit writes its progress, twice a second, and at last the report: report.Progress, one on each line.
func verifyAudit(folder, key string) error {
	enc := json.NewEncoder(os.Stdout)
	next := time.Now().Add(time.Second / 2)
	found, err := audit.Verify(folder, key, func(done, total int64) {
		if time.Now().After(next) {
			next = time.Now().Add(time.Second / 2)
			_ = enc.Encode(report.Progress{Done: done, Total: total})
		}
	})
	if err != nil {
		return err
	}
	return enc.Encode(report.Progress{Report: found})
}

// plain reports whether a line has no terminal controls, as the lines of a spool do.
func plain(line []byte) bool {
	return utf8.Valid(line) && !bytes.ContainsFunc(bytes.TrimSuffix(line, []byte("\n")), func(r rune) bool { return !strconv.IsPrint(r) })
}

// exportAudit writes events unchanged. Where some have been removed it continues after them, and reports that at the end.
func exportAudit(folder string, want audit.Filter) error {
	r := audit.NewReader(folder, audit.Cursor{})
	defer r.Close()
	var damage *audit.DamageError
	var missing error
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return missing
		case errors.As(err, &damage):
			missing = cmp.Or(missing, err)
		case err != nil:
			return err
		case want.Matches(line) && !plain(line):
			missing = cmp.Or(missing, fmt.Errorf("record %d isn't as any is written: 'toolguard audit verify' shows more", r.Cursor().Sequence))
		case want.Matches(line):
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
	}
}
