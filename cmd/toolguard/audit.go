package main

import (
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit/report"
	"github.com/toolguard/toolguard/internal/ownprogram"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// auditFolder is the folder of toolguardd's events.
const auditFolder = "/var/lib/toolguard/audit"

func newAudit(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "verify, export and prune the events that toolguardd has kept",
		Long: `toolguard audit: every event of toolguardd's sessions, and its own, is kept in ` + auditFolder + `,
in files that are only appended to, where any change shows. They're root's.`,
		Example: `  toolguard audit verify
  toolguard audit export --session 40b8dd0b28f61937 | jq .message`,
		Args: cobra.ArbitraryArgs,
		RunE: nameOne,
	}
	cmd.AddCommand(newAuditVerify(a), newAuditExport(a), newAuditPrune(a))
	return cmd
}

func newAuditVerify(a *app) *cobra.Command {
	var asJSON bool
	var key string
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "find every edit, cut, swap, removal and hole",
		Long: `toolguard audit verify: read all of the audit, or of a copy of its folder, and name the file and line of everything
that isn't as it was written. toolguardd may go on writing meanwhile. The exit status is 0 when all is sound, 1 when
something isn't, 2 when it couldn't be read. Root can rewrite the whole audit: compare the last record's
number and hash with a copy that is stored elsewhere, or give --key.`,
		Example: `  toolguard audit verify
  toolguard audit verify --key d3698d9cd5200561505c8995bf7cdd1b08fa2f2d5e3b414179403935314a7362
  toolguard audit verify --json /mnt/copy | jq '.problems[]'`,
		Args: oneFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(key) != 0 && !isKey(key) {
				return usagef(cmd, "--key takes a key as verify prints it: 64 hexadecimal digits")
			}
			r, err := a.verifyAudit(folderOf(args), key)
			if err == nil {
				err = a.answer(asJSON, r, func() { a.out.Audit(r) })
			}
			if err == nil && len(r.Problems) > 0 {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "a `KEY` that the audit had at some time, which you have kept elsewhere")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newAuditExport(a *app) *cobra.Command {
	var from, to uint64
	var session, kind string
	cmd := &cobra.Command{
		Use:   "export [DIR]",
		Short: "write events as they were kept, one JSON object (OCSF) a line",
		Long: `toolguard audit export: write the events of the audit, or of a copy of its folder, to standard output, in order and
unchanged. What isn't on the disk for sure yet isn't among them. It doesn't verify them: 'toolguard audit verify' does.`,
		Example: `  toolguard audit export > events.jsonl
  toolguard audit export --from 1000 --to 1999
  toolguard audit export --kind denial --session 40b8dd0b28f61937 | jq .message`,
		Args: oneFolder,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.daemonProgram(os.Stdout, "audit", "export", "--from", strconv.FormatUint(from, 10), "--to", strconv.FormatUint(to, 10),
				"--session", session, "--kind", kind, "--", folderOf(args))
		},
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "only records from number `N` on")
	cmd.Flags().Uint64Var(&to, "to", 0, "only records up to number `N`")
	cmd.Flags().StringVar(&session, "session", "", "only those of session `ID`")
	cmd.Flags().StringVar(&kind, "kind", "", "only `KIND`: denial, exec, session_start, session_end, gap, daemon, checkpoint")
	complete(cmd, "kind", "denial", "exec", "session_start", "session_end", "gap", "daemon", "checkpoint")
	return cmd
}

func newAuditPrune(a *app) *cobra.Command {
	var d daemonFlags
	var keep string
	cmd := &cobra.Command{
		Use:   "prune --keep SIZE",
		Short: "remove the oldest events, to free space",
		Long: `toolguard audit prune: remove the audit's oldest files until the rest is no larger than --keep. The audit itself
records the removal, unless every sink has the events, and 'toolguard audit verify' adds it up. Export the events first
if they may be needed. It needs root, and a running toolguardd.`,
		Example: `  toolguard audit export > events.jsonl && toolguard audit prune --keep 100MiB
  toolguard audit prune --keep 0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bytes, hint := policyfile.ParseSize(keep)
			if bytes == 0 && strings.Trim(keep, "0") != "" || keep == "" {
				return usagef(cmd, "--keep %q: %s", keep, hint)
			}
			var p api.Pruned
			if err := d.client().Do("POST", api.Prune, api.PruneRequest{Bytes: int64(min(bytes, math.MaxInt64))}, &p); err != nil {
				return err
			}
			a.err.Message("the audit's size was %s, and is %s now", output.Amount(p.Before), output.Amount(p.After))
			return nil
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep the newest events, of `SIZE` in all: 100MiB")
	d.define(cmd)
	return cmd
}

func oneFolder(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef(cmd, "name one folder, or none for %s", auditFolder)
	}
	return nil
}

func folderOf(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return auditFolder
}

func isKey(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// verifyAudit verifies a folder, and shows the progress.
func (a *app) verifyAudit(folder, key string) (*report.Report, error) {
	p := output.VerificationProgress{Screen: a.err}
	defer p.End()
	if err := a.daemonProgram(&p, "audit", "verify", "--key", key, "--", folder); err != nil {
		return nil, err
	}
	if p.Last.Report == nil {
		return nil, errors.New("toolguardd's program printed no result: is it of this version?")
	}
	return p.Last.Report, nil
}

// daemonProgram runs toolguardd's program, which has the code that would make every start of toolguard slower.
func (a *app) daemonProgram(out io.Writer, args ...string) error {
	file, err := ownprogram.Daemon()
	if err != nil {
		return err
	}
	cmd := exec.Command(file, args...)
	var why strings.Builder
	cmd.Stdout, cmd.Stderr = out, &why
	if err = cmd.Start(); err != nil {
		return err
	}
	err = cmd.Wait()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGPIPE {
		return exitStatus(exitTrouble) // the reader has closed the pipe
	}
	if text := strings.TrimSpace(strings.TrimPrefix(why.String(), "toolguardd: ")); err != nil && text != "" {
		return errors.New(text)
	}
	return err
}
