package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/grant/lastrun"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// allowFlags are the flags of allow.
type allowFlags struct {
	file      string
	workspace string
	yes       bool
	force     bool
}

func newAllow(a *app) *cobra.Command {
	var f allowFlags
	cmd := &cobra.Command{
		Use:   "allow [flags] [N...]",
		Short: "add to a policy what allows the last run's denials",
		Long: `toolguard allow: adds rules to a policy that would have allowed the last run's denials, all of them or those with these
numbers ('toolguard why' lists them), shows it first, and asks.

The rules are appended to the file, of which everything else stays as it is, and only if the file loads with them,
allows the denied access, and removes no other permission; otherwise nothing is written. Secrets, protected files and
sockets of root's aren't granted without --force. The exit status is 0 when the policy allows the denied access, 1 when
it doesn't, 2 when something went wrong.`,
		Example: `  toolguard allow                                # everything that is suggested, to the policy of that run
  toolguard allow 1 3 --policy ../policy.toml
  toolguard allow 2 --yes                        # in a script`,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := lastRun(f.workspace)
			if err != nil {
				return err
			}
			var numbers []int
			for _, word := range args {
				n, err := denialNumber(cmd, run, word)
				if err != nil {
					return err
				}
				numbers = append(numbers, n)
			}
			if f.file == "" {
				if f.file = lastrun.PolicyOf(run); f.file == "" {
					return usagef(cmd, "name the policy: --policy FILE, or have 'toolguard policy init' write one")
				}
			}
			return a.allow(&f, run, numbers)
		},
		ValidArgsFunction: completeDenials(&f.workspace),
	}
	cmd.Flags().StringVar(&f.file, "policy", "", "add to `FILE` (default: the one of that run, or the user's own for the workspace)")
	if err := cmd.MarkFlagFilename("policy", "toml"); err != nil {
		panic(err) // a mistake in this program
	}
	workspaceFlag(cmd, &f.workspace)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "don't ask")
	cmd.Flags().BoolVar(&f.force, "force", false, "grant secrets, protected files and sockets of root's, too")
	return cmd
}

// allow adds rules to a policy that allow these denials of a run; all of them, where there are no numbers.
func (a *app) allow(f *allowFlags, run *userfiles.Run, numbers []int) error {
	file, old, err := lastrun.ReadEditable(f.file)
	if err != nil {
		return err
	}
	p := lastrun.PolicyToEdit(run, file, old)
	left, err := lastrun.AddGrants(p, run, numbers, f.force)
	if err != nil {
		return err
	}
	if len(numbers) > 0 && len(left) > 0 { // all of the named ones, or none
		p.Text = old
	}
	a.out.Addition(file, output.LineDiff(string(old), string(p.Text)), left)
	switch same := bytes.Equal(p.Text, old); {
	case same && len(left) > 0:
		a.err.Message("nothing was written")
		return exitStatus(exitNo)
	case same:
		a.err.Message("%s allows it already", file)
		return nil
	}
	if err := a.agree(f.yes); err != nil {
		return err
	}
	if _, now, err := lastrun.ReadEditable(file); err != nil || !bytes.Equal(now, old) {
		return errors.Join(err, fmt.Errorf("%s was changed meanwhile, and nothing was written: try again", file))
	}
	if err := hostfs.Replace(file, p.Text); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	a.err.Message("wrote %s", file)
	if len(left) > 0 {
		return exitStatus(exitNo)
	}
	return nil
}

// agree asks for confirmation, on a terminal.
func (a *app) agree(yes bool) error {
	if yes {
		return nil
	}
	in, ok := a.in.(*os.File)
	if ok {
		info, err := in.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok || !a.err.Terminal {
		return errors.New("nothing was written, as there's no terminal to ask on: --yes writes it")
	}
	a.err.Question("write this?")
	answer, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is a no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		a.err.Message("nothing was written")
		return exitStatus(exitNo)
	}
	return nil
}
