package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/session"
)

// newEgress is what exec starts beside a command that may use the network. It's for nobody else.
func newEgress(*app) *cobra.Command {
	return &cobra.Command{
		Use:    "egress DESCRIPTOR",
		Short:  "decide about a session's connections",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			fd, err := strconv.Atoi(args[0])
			if err != nil || fd < 3 {
				return usagef(cmd, "only toolguard itself starts this")
			}
			return session.ServeEgress(fd)
		},
	}
}
