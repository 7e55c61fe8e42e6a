package policyfile

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// kinds are the kinds of work for which the built-in default policy has presets: the preset of each, the files in a workspace's top folder that it's
// recognised by, and the commands. A command's name may end with a version: "python3.12".
var kinds = []struct {
	preset          string
	files, commands []string
}{
	{"python", words("pyproject.toml requirements.txt setup.py setup.cfg tox.ini uv.lock Pipfile .venv .python-version"), words("python pip pytest tox uv uvx poetry pipx pdm hatch")},
	{"node", words("package.json deno.json bun.lock .nvmrc"), words("node npm npx pnpm yarn bun bunx deno corepack")},
	{"go", words("go.mod go.work"), words("go gofmt gopls")},
	{"rust", words("Cargo.toml rust-toolchain.toml rust-toolchain"), words("cargo rustc rustup")},
	{"java", words("pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradlew mvnw build.sbt"), words("java javac jar mvn gradle sbt kotlinc")},
	{"c", words("Makefile CMakeLists.txt meson.build configure.ac configure GNUmakefile"), words("make cmake ninja meson gcc g++ cc c++ clang clang++ ccache")},
	{"git", words(".git"), words("git")},
}

func words(s string) []string { return strings.Fields(s) }

// detect returns the presets that a workspace and a command (its argument 0; "" for none) need, in the order of kinds.
func detect(dir, command string, files Files) (found []policy.Detected) {
	command = strings.TrimRight(path.Base(command), "0123456789.-")
	for _, k := range kinds {
		by := ""
		for _, f := range k.files {
			if by == "" && files.Exists(filepath.Join(dir, f)) {
				by = f
			}
		}
		for _, c := range k.commands {
			if by == "" && c == command {
				by = c
			}
		}
		if by != "" {
			found = append(found, policy.Detected{Preset: presetPrefix + k.preset, By: by})
		}
	}
	return found
}
