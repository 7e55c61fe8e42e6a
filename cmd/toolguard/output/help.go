package output

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help is the help of a command.
func (s *Screen) Help(cmd *cobra.Command) {
	defer s.flush()
	about := cmp.Or(cmd.Long, cmd.CommandPath()+": "+cmd.Short)
	s.line("%s\n\n%s\n  %s", about, s.in(bold, "Usage"), UsageLine(cmd))
	if cmd.Example != "" {
		s.line("\n%s\n%s", s.in(bold, "Examples"), cmd.Example)
	}
	if !cmd.HasAvailableSubCommands() {
		s.flags(cmd.LocalFlags())
		return
	}
	s.commands(cmd)
	s.line("\n'%s COMMAND --help' shows more about each", cmd.CommandPath())
}

// commands lists the commands beneath one, those of a group together.
func (s *Screen) commands(cmd *cobra.Command) {
	var rows [][]cell
	title := ""
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if rows == nil || sub.GroupID != title {
			title = sub.GroupID
			rows = append(rows, nil, []cell{cs(bold, cmp.Or(title, "Commands"))})
		}
		rows = append(rows, []cell{c("  " + sub.Name()), c(sub.Short)})
	}
	s.table("", rows)
}

// flags lists flags: name and value, then what it does, on the next line where the first is long.
func (s *Screen) flags(flags *pflag.FlagSet) {
	const column = 18
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			s.line("\n%s", s.in(bold, "Flags"))
			first = false
		}
		value, help := pflag.UnquoteUsage(f)
		if strings.Contains(f.Value.Type(), "|") { // one of several values
			help += " (default " + f.DefValue + ")"
		}
		name := "--" + f.Name
		if value != "" {
			name += " " + value
		}
		gap := "\n" + strings.Repeat(" ", column+4)
		if n := utf8.RuneCountInString(name); n <= column {
			gap = strings.Repeat(" ", column-n+2)
		}
		s.line("  %s%s%s", s.in(bold, name), gap, help)
	})
}

func UsageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	return cmd.UseLine()
}
