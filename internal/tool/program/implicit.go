package program

import "github.com/toolguard/toolguard/internal/lazy"

// implicit are the entries of programs that execute files which their arguments don't name. What git's settings and hooks, and the start-up files
// of editors, execute is no part of it: these programs aren't there to execute a project's code.
var implicit = lazy.Set(`make gmake ninja just task rake invoke fab go/run go/test go/generate go/tool cargo cargo/* cmake ctest cpack meson
	npm pnpm yarn cnpm npm/exec npm/x pnpm/exec pnpm/dlx pnpx/dlx yarn/exec yarn/dlx yarn/node npm/* pnpm/* yarn/* pip/install pip/download pip/wheel
	python/pytest python/unittest python/build python/coverage python/mypy pytest py.test jest vitest mocha tsc eslint prettier tsx ts-node esno
	dpkg rpm brew gem composer mvn gradle sbt ant latexmk sphinx-build npx bunx pnpx uvx uv/run uv/tool uv/x pipx pipx/run poetry pipenv pdm rye hatch
	conda mamba mise asdf rtx volta bundle bundler rbenv pyenv nodenv nvm-exec tox nox deno/run deno/serve deno/test deno/bench bun bun/run bun/x direnv direnv/exec`)

// executesMore notes that the program executes files which its arguments don't name.
func (in *inspection) executesMore() {
	u := Unclear{in.name, "executes files that its arguments don't name"}
	if n := len(in.out.Implicit); n == 0 || n < maxUnclear && in.out.Implicit[n-1] != u {
		in.out.Implicit = append(in.out.Implicit, u)
	}
}

// Listed reports whether the tables have a program, by its name or path.
func Listed(name string) bool { return lookUp(baseName(name)) != nil }
