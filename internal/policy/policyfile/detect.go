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
	{"python", strings.Fields("pyproject.toml requirements.txt setup.py setup.cfg tox.ini uv.lock Pipfile .venv .python-version"), strings.Fields("python pip pytest tox uv uvx poetry pipx pdm hatch")},
	{"node", strings.Fields("package.json deno.json bun.lock .nvmrc"), strings.Fields("node npm npx pnpm yarn bun bunx deno corepack")},
	{"go", strings.Fields("go.mod go.work"), strings.Fields("go gofmt gopls")},
	{"rust", strings.Fields("Cargo.toml rust-toolchain.toml rust-toolchain"), strings.Fields("cargo rustc rustup")},
	{"java", strings.Fields("pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradlew mvnw build.sbt"), strings.Fields("java javac jar mvn gradle sbt kotlinc")},
	{"c", strings.Fields("Makefile CMakeLists.txt meson.build configure.ac configure GNUmakefile"), strings.Fields("make cmake ninja meson gcc g++ cc c++ clang clang++ ccache")},
	{"git", strings.Fields(".git"), strings.Fields("git")},
}

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
