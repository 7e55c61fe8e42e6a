package main

import (
	"fmt"
	"os"
	"path/filepath"
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
			dir, err := workspaceFolder(strings.Join(args, ""))
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

// workspaceFolder is the canonical path of a folder that may be a workspace.
func workspaceFolder(name string) (string, error) {
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("find the folder: %w", err)
	}
	if info, err := os.Stat(dir); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s isn't a folder", dir)
	}
	if policyload.ContainsHome(dir) {
		return "", fmt.Errorf("%s is the home, or contains it, and no workspace: a command could read and write everything in it; "+
			"name a project's folder: toolguard policy init DIR", dir)
	}
	return filepath.EvalSymlinks(dir)
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
	if err := writeNew(output, text, force); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	a.err.Message("wrote %s: toolguard exec --policy %s", output, output)
	return nil
}

// writeNew writes a new file, or, by force, replaces one.
func writeNew(name string, text []byte, force bool) error {
	if _, err := os.Lstat(name); err == nil && force {
		return hostfs.Replace(name, text)
	} else if err == nil {
		return fmt.Errorf("%s is there already: --force replaces it", name)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
