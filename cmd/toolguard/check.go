package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/access"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

const questionHelp = `  fs read|create|update|delete|execute PATH
  fs readlink PATH                 whether the text of a symlink may be read
  net connect|listen|METHOD URL    also tcp://host:port and udp://host:port; METHOD is of HTTP
  env read NAME
  command run -- PROGRAM [ARG...]`

func newCheck(a *app) *cobra.Command {
	var p policyFlags
	var by backendFlags
	var asJSON, batch bool
	cmd := &cobra.Command{
		Use:   "check [flags] RESOURCE ACTION TARGET",
		Short: "ask whether a policy allows something",
		Long: `toolguard check: ask whether a policy allows something. Nothing is executed, opened or connected to.

` + questionHelp + `

Prints the decision, the rule behind it, whether it's enforced on this machine and by what, and, for a denial, the
grant that would allow it. The exit status is the policy's: 0 for allow, 1 for deny, 2 when there is no answer. With
--batch, questions are read as JSON lines from standard input and answered in the same order; the exit status is that
of the worst answer.

In a session of exec --tool, and without --policy, the questions are about that session's own policy, which
TOOLGUARD_CONTEXT names, and a denial lists what is granted.`,
		Example: `  toolguard check --policy policy.toml fs read src/main.py
  toolguard check --policy policy.toml net connect https://api.github.com/repos
  toolguard check --policy policy.toml net POST https://api.github.com/repos   # where the policy has paths or methods
  toolguard check --policy policy.toml env read AWS_SECRET_ACCESS_KEY
  toolguard check --policy policy.toml command run -- git push --force
  echo '{"id":1,"resource":"fs","action":"read","target":".env"}' | toolguard check --policy policy.toml --batch`,
		ValidArgsFunction: completeQuestion,
		RunE: func(cmd *cobra.Command, args []string) error {
			if batch {
				if len(args) > 0 {
					return usagef(cmd, "--batch reads its questions from standard input, not from %q", args[0])
				}
				return a.batch(&p, &by)
			}
			q, err := question(cmd, args)
			if err != nil {
				return err
			}
			c, own, err := a.asked(&p)
			if err != nil {
				return err
			}
			answer, here := by.evaluator(c).ask(q)
			machines := output.AnswerJSON(answer, here)
			machines.Grants = granted(own, q, &answer)
			err = a.answer(asJSON, machines, func() {
				a.out.Answer(q, answer, here)
				a.out.Granted(machines.Grants)
			})
			if err == nil && answer.Decision != "allow" {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	p.define(cmd)
	by.define(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&batch, "batch", false, "read JSON lines from standard input, answer each with one")
	return cmd
}

func newExplain(a *app) *cobra.Command {
	var p policyFlags
	var by backendFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [flags] RESOURCE ACTION TARGET",
		Short: "the same as check, with every rule that matched",
		Long: `toolguard explain: every rule that matched in a decision, authority by authority, which one won and why.

` + questionHelp + `

The exit status is that of check: 0 for allow, 1 for deny, 2 when there is no answer.`,
		Example: `  toolguard explain --policy policy.toml fs update .git/hooks/pre-commit
  toolguard explain --policy policy.toml net connect https://api.github.com/admin
  toolguard explain --policy policy.toml --json command run -- git status`,
		ValidArgsFunction: completeQuestion,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := question(cmd, args)
			if err != nil {
				return err
			}
			c, own, err := a.asked(&p)
			if err != nil {
				return err
			}
			e, here := by.evaluator(c).explain(q)
			machines := output.ExplanationJSON(e, here)
			machines.Grants = granted(own, q, &e.Answer)
			err = a.answer(asJSON, machines, func() {
				a.out.Explanation(q, e, here)
				a.out.Granted(machines.Grants)
			})
			if err == nil && e.Answer.Decision != "allow" {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	p.define(cmd)
	by.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// asked returns the policy that questions are about. Where no policy is named, it's that of the session of exec --tool in which this process is,
// with its context; else own is nil.
func (a *app) asked(p *policyFlags) (c *policy.Compiled, own *access.Context, err error) {
	value := os.Getenv(access.Variable)
	if value == "" || len(p.Files) > 0 {
		if c, err = a.load(p, ""); err == nil {
			a.warnUnknown(p)
		}
		return c, nil, err
	}
	own, err = access.Open(value)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the policy of this session can't be read, so name one (--policy): %w", err)
	case p.Tool != "" && p.Tool != own.Tool, p.Agent != "", p.Workspace != "", p.Caller.Environment != "":
		return nil, nil, fmt.Errorf("the policy of this session is for the tool %s as it was started: name a policy (--policy) to ask about another tool, agent, workspace or environment", own.Tool)
	}
	a.err.Message("the policy is that of this session, for the tool %s (%s)", own.Tool, access.Variable)
	return own.Policy, own, nil
}

// warnUnknown warns of an agent, a profile, a provider or a group that has no table, where others have one: the name may be mistyped.
func (a *app) warnUnknown(p *policyFlags) {
	if !p.NamesCallers() {
		return // reading the tool layer would take a tenth of a start
	}
	for _, w := range visibility.UnknownNames(p.Document.Tools(), p.visibilityCaller()) {
		a.err.Warn("%s", w)
	}
}

// granted is what a session's context grants of what is denied; nil where nothing is denied, or there is no context.
func granted(own *access.Context, q explain.Question, a *explain.Answer) []string {
	if own == nil || a.Decision == "allow" {
		return nil
	}
	return own.Grants(q.Resource)
}

// question reads RESOURCE ACTION TARGET.
func question(cmd *cobra.Command, args []string) (explain.Question, error) {
	if len(args) < 3 {
		return explain.Question{}, usagef(cmd, "name a resource, an action and a target, such as: fs read PATH")
	}
	q, err := explain.ParseQuestion(args[0], args[1])
	if err != nil {
		return q, usagef(cmd, "%s", err)
	}
	if q.Resource == policy.Commands {
		q.Argv = args[2:]
		return q, nil
	}
	if len(args) > 3 {
		return q, usagef(cmd, "name one target: %q is a second one", args[3])
	}
	if args[2] == "" {
		return q, usagef(cmd, "the target is empty")
	}
	q.Target = args[2]
	return q, q.NormalizeTarget(policyload.Home())
}

// completeQuestion completes resource and action, and leaves the target to the shell.
func completeQuestion(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	words := cobra.ShellCompDirectiveNoFileComp
	switch len(args) {
	case 0:
		return []string{"fs", "net", "env", "command"}, words
	case 1:
		return map[string][]string{
			"fs":  {"read", "readlink", "create", "update", "delete", "execute"},
			"net": {"connect", "listen", "GET", "POST"}, "env": {"read"}, "command": {"run"},
		}[args[0]], words
	}
	if args[0] == "net" {
		return nil, words
	}
	if args[0] == "env" {
		return environNames(os.Environ()), words
	}
	return nil, cobra.ShellCompDirectiveDefault
}
