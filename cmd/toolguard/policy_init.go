package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/policyload"
)

func newInit(a *app) *cobra.Command {
	var output string
	var force bool
	cmd := &cobra.Command{
		Use:   "init [flags] [DIR]",
		Short: "write a commented starter policy for a workspace",
		Long: `toolguard policy init: writes a commented starter policy made from what the workspace is (Go, Python, Node, …).

It's written to $XDG_CONFIG_HOME/toolguard/policies (or ~/.config/…), under a name made of the folder's. There
'toolguard exec' and the commands that ask about policies find it, in DIR and everywhere beneath, unless --policy names
another one. A policy within the project isn't looked for: a command may have written it. Under sudo it's root's home
that counts.`,
		Example: `  toolguard policy init                        # for the current folder
  toolguard policy init ~/src/site
  toolguard policy init --output ../policy.toml
  toolguard policy init --output - | less      # print it`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef(cmd, "name one folder: %q is a second one", args[1])
			}
			dir, err := policyload.WorkspaceFolder(strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.writeStarter(dir, output, force)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&output, "output", "", "write `FILE` instead; - prints it")
	cmd.Flags().BoolVar(&force, "force", false, "replace a policy that is there")
	return cmd
}

// writeStarter writes the starter policy of a folder to a file, to standard output ("-"), or to the user's own policies ("").
func (a *app) writeStarter(dir, output string, force bool) error {
	text := policyfile.Starter(dir, hostfs.Machine{})
	switch output {
	case "-":
		if _, err := a.out.W.Write(text); err != nil {
			return fmt.Errorf("write the policy: %w", err)
		}
		return nil
	case "":
		file, err := policyload.OwnFolders().WritePolicy(dir, policyfile.StarterFor(dir, hostfs.Machine{}), force)
		if err != nil {
			return fmt.Errorf("write the policy: %w", err)
		}
		a.err.Message("wrote %s: commands in %s are run under it from now on; read it, and make it yours", file, dir)
		return nil
	}
	if err := hostfs.WriteNew(output, text, force); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	a.err.Message("wrote %s: toolguard exec --policy %s", output, output)
	return nil
}
