package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/session"
)

func newDoctor(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "tell what this machine can enforce, and how to get what is missing",
		Long: `toolguard doctor: what this machine and this user can enforce. Each probe says what needs it, and each missing thing how
to get it. Nothing is changed. The exit status is 1 when there is no usable backend.`,
		Example: `  toolguard doctor
  toolguard doctor --json | jq '.probes[] | select(.result != "yes")'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			m := session.Doctor()
			err := a.answer(asJSON, m, func() { a.out.machine(m) })
			if err == nil && !slices.ContainsFunc(m.Backends, func(b session.BackendState) bool { return b.Available }) {
				err = said(exitNo)
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
