package policyfile

import (
	"fmt"
	"path/filepath"
	"strings"
)

// hints tell by a file in a project's top folder which preset it needs.
var hints = []struct{ file, preset string }{
	{"pyproject.toml", "python"},
	{"requirements.txt", "python"},
	{"setup.py", "python"},
	{"uv.lock", "python"},
	{".venv", "python"},
	{"package.json", "node"},
	{"go.mod", "go"},
	{"go.work", "go"},
	{".git", "git"},
}

// Starter is a commented policy to begin with, made for what is in dir, which is absolute.
func Starter(dir string, files Files) []byte {
	var extends []string
	for _, h := range hints {
		name := fmt.Sprintf("%q", presetPrefix+h.preset)
		if files.Exists(filepath.Join(dir, h.file)) && (len(extends) == 0 || extends[len(extends)-1] != name) {
			extends = append(extends, name)
		}
	}
	b := string(builtinText("starter"))
	b = strings.Replace(b, `"NAME"`, fmt.Sprintf("%q", starterName(dir)), 1)
	if len(extends) == 0 {
		return []byte(strings.Replace(b, `extends = []`, `extends = ["preset:readonly"]`, 1))
	}
	return []byte(strings.Replace(b, `extends = []`, "extends = ["+strings.Join(extends, ", ")+"]", 1))
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
