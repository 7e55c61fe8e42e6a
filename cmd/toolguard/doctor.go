package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/session/backend"
)

func newDoctor(a *app) *cobra.Command {
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "show what this machine can enforce, and how to enforce more",
		Long: `toolguard doctor: what this machine enforces for this user, what it doesn't, and how to enforce more. With --verbose,
also every probe, and what each backend never sees. Nothing is changed. The exit status is 1 when there is no usable
backend.`,
		Example: `  toolguard doctor
  toolguard doctor --verbose
  toolguard doctor --json | jq '.probes[] | select(.result != "yes")'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			m := backend.Doctor()
			err := a.answer(asJSON, m, func() {
				if verbose {
					a.out.Machine(m)
				} else {
					a.out.Offers(m)
				}
			})
			if err == nil && !slices.ContainsFunc(m.Backends, func(b backend.BackendState) bool { return b.Available }) {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "every probe, and what each backend never sees")
	jsonFlag(cmd, &asJSON)
	return cmd
}
