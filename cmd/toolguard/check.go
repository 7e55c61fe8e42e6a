package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
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
of the worst answer.`,
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
			c, err := a.load(&p, "")
			if err != nil {
				return err
			}
			answer, here := by.evaluator(c).ask(q)
			err = a.answer(asJSON, output.AnswerJSON(answer, here), func() { a.out.Answer(q, answer, here) })
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
			c, err := a.load(&p, "")
			if err != nil {
				return err
			}
			e, here := by.evaluator(c).explain(q)
			err = a.answer(asJSON, output.ExplanationJSON(e, here), func() { a.out.Explanation(q, e, here) })
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

// question reads RESOURCE ACTION TARGET.
func question(cmd *cobra.Command, args []string) (explain.Question, error) {
	if len(args) < 3 {
		return explain.Question{}, usagef(cmd, "name a resource, an action and a target, such as: fs read PATH")
	}
	q, msg := ask(args[0], args[1])
	if msg != "" {
		return q, usagef(cmd, "%s", msg)
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
	return q, understand(&q)
}

// ask returns the question without its target; msg is the error in the words.
func ask(resource, action string) (q explain.Question, msg string) {
	switch resource {
	case "fs":
		caps, ok := policy.ParseCap(action)
		if action == "readlink" {
			return explain.Question{Resource: policy.FS, Caps: policy.Read, Symlink: true}, ""
		}
		if !ok {
			return q, "fs has no action \"" + action + "\": use read, readlink, create, update, delete or execute"
		}
		return explain.Question{Resource: policy.FS, Caps: caps}, ""
	case "net":
		q = explain.Question{Resource: policy.Net, Listen: action == "listen"}
		if action != "connect" && action != "listen" {
			q.Method = action
		}
		if strings.Trim(q.Method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
			return q, "net has no action \"" + action + "\": use connect, listen or a method of HTTP, such as GET"
		}
		return q, ""
	case "env":
		if action != "read" {
			return q, "env has no action \"" + action + "\": use read"
		}
		return explain.Question{Resource: policy.Env}, ""
	case "command", "commands":
		if action != "run" {
			return q, "command has no action \"" + action + "\": use run"
		}
		return explain.Question{Resource: policy.Commands}, ""
	}
	return q, "there is no resource \"" + resource + "\": use fs, net, env or command"
}

// understand converts a target to the form that the rules have, or returns why it's invalid, where that's an error and not a denial.
func understand(q *explain.Question) error {
	switch q.Resource {
	case policy.FS:
		return understandPath(q)
	case policy.Net:
		_, err := netname.ParseTarget(q.Target)
		return err
	case policy.Env:
		if name, _, ok := strings.Cut(q.Target, "="); ok {
			return fmt.Errorf("a variable is asked about by its name alone: %q, not what it's set to", name)
		}
	}
	return nil
}

// understandPath converts a path as in a rule: ~/ is the home, and a variable or a wildcard that a shell would have expanded is an error.
func understandPath(q *explain.Question) error {
	t := q.Target
	switch msg, hint := fspath.Misread(t, false); {
	case t == "~" || strings.HasPrefix(t, "~/"):
		if home() == "" {
			return fmt.Errorf("the home folder that %q is relative to isn't known", t)
		}
		q.Target = home() + t[1:]
	case strings.HasPrefix(t, "~"):
		return fmt.Errorf("%q names another user's home: write it out, or ./%s for a file of that name", t, t)
	case msg != "" && (strings.HasPrefix(t, "file:") || strings.HasPrefix(t, "$") || strings.HasPrefix(t, "%")):
		return fmt.Errorf("%s: %s, or ./%s for a file of that name", msg, hint, t)
	}
	return nil
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
