package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/version"
)

func newMan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the manual pages into a folder",
		Example: "  toolguard man /usr/local/share/man/man1",
		Hidden:  true, // it's for packages
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "name the folder")
			}
			return writeMan(a.root(nil), args[0], version.String())
		},
	}
}

// writeMan writes the page of a command and of those beneath it.
func writeMan(cmd *cobra.Command, dir, version string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(manPage(cmd, version)), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writeMan(sub, dir, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// manPage returns the --help text of a command as man(7) source.
func manPage(cmd *cobra.Command, version string) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %s 1 \"\" %q\n", strings.ToUpper(roff(strings.ReplaceAll(cmd.CommandPath(), " ", "-"))), "toolguard "+roff(version))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(cmd.CommandPath()), roff(cmd.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, ".B %s\n", roff(output.UsageLine(cmd)))
	if about := strings.TrimPrefix(cmd.Long, cmd.CommandPath()+": "); about != "" {
		section("DESCRIPTION")
		literal(&b, about)
	}
	if cmd.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(strings.ReplaceAll(sub.CommandPath(), " ", "-")), roff(sub.Short))
			}
		}
	} else if cmd.LocalFlags().HasAvailableFlags() {
		section("OPTIONS")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if value, help := pflag.UnquoteUsage(f); !f.Hidden {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("--"+f.Name+" "+value)), roff(help))
			}
		})
	}
	if cmd.Example != "" {
		section("EXAMPLES")
		literal(&b, cmd.Example)
	}
	return b.String()
}

// literal writes text whose lines stay as they are.
func literal(b *strings.Builder, text string) {
	b.WriteString(".nf\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff escapes text: a line that begins with a dot or an apostrophe would be a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
