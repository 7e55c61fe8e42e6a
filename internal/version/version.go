// Package version has the version of toolguard's programs. The file VERSION is its only source; a release's tag, package and entry
// in CHANGELOG.md are derived from it.
package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var release string

// build is the output of scripts/version, set by the linker (-X). It is empty if go build ran without it.
var build string //nolint:gochecknoglobals // the linker's

// Release returns the version of the newest release, or of the one in preparation.
func Release() string { return strings.TrimSpace(release) }

// String returns the version of this program: the release alone if it was built from the release's tag, else with + and the commit.
func String() string {
	if build != "" {
		return build
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version == "v"+Release() { // go install …@v0.1.0
		return Release()
	}
	return Release() + "+devel"
}
