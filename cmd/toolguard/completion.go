package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "print a completion script for a shell",
		Example: `  source <(toolguard completion bash)                                          # for this shell
  toolguard completion bash > /etc/bash_completion.d/toolguard                 # for every new one
  toolguard completion zsh > "${fpath[1]}/_toolguard"
  toolguard completion fish > ~/.config/fish/completions/toolguard.fish`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "name one shell: %s", orList(shells))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out.W, true)
			case "zsh":
				return root.GenZshCompletion(a.out.W)
			case "fish":
				return root.GenFishCompletion(a.out.W, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out.W)
			}
			return usagef(cmd, "%q isn't a supported shell: use %s", args[0], orList(shells))
		},
	}
}
