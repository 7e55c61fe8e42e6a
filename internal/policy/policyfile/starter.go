package policyfile

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// Starter returns a commented policy to begin with, made for the files in dir, which is absolute.
func Starter(dir string, files Files) []byte {
	var extends []string
	for _, d := range detect(dir, "", files) {
		extends = append(extends, fmt.Sprintf("%q", d.Preset))
	}
	b := string(builtinText("starter"))
	b = strings.Replace(b, `"NAME"`, fmt.Sprintf("%q", starterName(dir)), 1)
	if len(extends) == 0 {
		return []byte(strings.Replace(b, `extends = []`, `extends = ["preset:readonly"]`, 1))
	}
	return []byte(strings.Replace(b, `extends = []`, "extends = ["+strings.Join(extends, ", ")+"]", 1))
}

// StarterFor is Starter for a file outside the folder, which applies to every command that is run in it: it names the folder as the workspace, and
// sets no limits yet.
func StarterFor(dir string, files Files) []byte {
	b := string(Starter(dir, files))
	b = strings.Replace(b, "\n\n# What the tools", "\nworkspace = "+tomltext.Quote(dir)+"\n\n# What the tools", 1)
	return []byte(strings.Replace(b, "\n[limits]\nwall_time", "\n# [limits]\n# wall_time", 1))
}

// starterName is the folder's name, as far as it fits in a TOML string without escapes.
func starterName(dir string) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '"' || r == '\\' || r > 0x7e {
			return '_'
		}
		return r
	}, filepath.Base(dir))
	if name == "/" || name == "." {
		return "machine"
	}
	return name
}
