package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
)

func jsonFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "json", false, "print JSON, for machines")
}

// choice is the value of a flag with a closed set of values.
type choice struct {
	value  *string
	values []string
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return strings.Join(c.values, "|") }

func (c choice) Set(s string) error {
	for _, v := range c.values {
		if s == v {
			*c.value = s
			return nil
		}
	}
	return errors.New("use " + orList(c.values))
}

// choiceFlag defines a flag with a closed set of values, the first of them the default, and their completion.
func choiceFlag(cmd *cobra.Command, p *string, name, help string, values ...string) {
	*p = values[0]
	cmd.Flags().Var(choice{p, values}, name, help)
	complete(cmd, name, values...)
}

// complete lets the shell complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// The only error is an unknown flag, or one that is completed twice: a bug in this program.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// orList is "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// flagError rewrites pflag's messages in toolguard's style.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	switch {
	case errors.As(err, &unknown):
		u := &output.UsageError{Command: cmd.CommandPath(), Msg: fmt.Sprintf("there is no flag %s", dashed(unknown.GetSpecifiedName()))}
		if near := nearFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			u.Hint = fmt.Sprintf("did you mean --%s?", near)
		} else if cmd.Name() == "check" || cmd.Name() == "explain" {
			u.Hint = "the flags of a program that is asked about come after --: command run -- git push --force"
		}
		return u
	case errors.As(err, &missing):
		return usagef(cmd, "%s needs a value", dashed(missing.GetSpecifiedName()))
	case errors.As(err, &invalid) && errors.As(err, &number):
		return usagef(cmd, "%s %q: write a number, without a fraction or a sign", dashed(invalid.GetFlag().Name), invalid.GetValue())
	case errors.As(err, &invalid):
		return usagef(cmd, "%s %q: %v", dashed(invalid.GetFlag().Name), invalid.GetValue(), invalid.Unwrap())
	}
	return &output.UsageError{Command: cmd.CommandPath(), Msg: err.Error()}
}

// noEmptyFlags rejects a flag whose value is empty, as --events "$FILE" is where FILE isn't set: it would count as absent.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = usagef(cmd, "--%s needs a value, and this one is empty", f.Name)
		}
	})
	return err
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// nearFlag returns the flag of cmd that is nearest to name, or "". Cobra compares only names of commands, so
// nearFlag passes it the flags as commands.
func nearFlag(cmd *cobra.Command, name string) string {
	if len(name) < 2 {
		return ""
	}
	words := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		words.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := words.SuggestionsFor(name); len(near) > 0 {
		return near[0]
	}
	return ""
}
