// Package version is the version of toolguard's programs. The file VERSION is the only place where it's written; a release's tag,
// package and entry in CHANGELOG.md have it from there.
package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var release string

// build is what scripts/version printed, set by the linker (-X). It's empty where go build was run without it.
var build string //nolint:gochecknoglobals // the linker's

// Release is the version of the newest release, or of the one that's being prepared.
func Release() string { return strings.TrimSpace(release) }

// String is the version of this program: the release alone if it's built from the release's tag, else with + and which commit it is.
func String() string {
	if build != "" {
		return build
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version == "v"+Release() { // go install …@v0.1.0
		return Release()
	}
	return Release() + "+devel"
}
