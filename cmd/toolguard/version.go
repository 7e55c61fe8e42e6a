package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/version"
)

func newVersion(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Example: `  toolguard version
  toolguard version --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildInfo()
			return a.answer(asJSON, b, func() { a.out.Version(b) })
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func buildInfo() output.Build {
	b := output.Build{Version: version.String(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
