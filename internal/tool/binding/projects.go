package binding

import (
	"path/filepath"

	"github.com/toolguard/toolguard/internal/lazy"
)

// projects are programs that execute what is in the current folder or in one above it: build files, tests, plug-ins and settings that name
// programs. The tables of package program, which are about what a call does, have none of them.
var projects = lazy.Set(`bazel bazelisk buck buck2 pants please plz scons waf b2 bjam dune opam cabal stack ghcid spago zig flutter dart lein clj clojure boot mix iex
	rebar3 gleam prove cpanm carton phpunit pest phpstan psalm php-cs-fixer artisan rspec cucumber minitest standardrb rubocop solargraph overcommit pre-commit prek
	lefthook husky lint-staged commitlint semantic-release changeset nx turbo lerna rush moon wireit webpack webpack-cli webpack-dev-server vite vue-tsc
	vue-cli-service rollup esbuild parcel rspack rsbuild swc babel gulp grunt ember ng cypress playwright storybook start-storybook next nuxt astro
	remix gatsby svelte-kit expo react-native metro stylelint xo standard ava tap tape jasmine karma nyc c8 nodemon pm2 concurrently wdio
	testcafe snakemake nextflow luigi prefect dagster kedro dvc airflow dbt flask uvicorn gunicorn hypercorn daphne waitress-serve django-admin manage.py
	celery dramatiq rq alembic streamlit gradio chainlit jupyter jupyter-lab jupyter-notebook papermill nbconvert sphinx sphinx-autobuild mkdocs pelican nikola hugo jekyll
	eleventy zola behave nose nose2 nosetests trial locust robot green ward flake8 pylint pyright pytype ruff mypy dmypy pyre black isort yapf bandit
	semgrep scrapy doit invoke nox hatchling flit maturin setup.py gradlew mvnw mill bloop scala-cli sbtn kotlin detekt ktlint
	xcodebuild fastlane pod carthage tuist swiftlint golangci-lint goreleaser ko air mage wire buf packer vagrant nix nix-build nix-env nix-shell nixos-rebuild
	home-manager guix devbox devenv flox docker docker-compose podman podman-compose buildah nerdctl skaffold tilt garden earthly dagger act helm
	helmfile kustomize kubectl argocd flux pulumi cdk cdktf terraform tofu terragrunt serverless sls sam chalice sst amplify firebase wrangler vercel
	netlify heroku fly flyctl ansible ansible-playbook ansible-galaxy molecule salt salt-call puppet chef-client knife chezmoi gh glab hub hg svn jj bzr
	darcs aws gcloud az cppcheck clang-tidy clangd qmake xmake premake5 autoreconf autoconf automake aclocal libtoolize sqlite3 psql mysql gdb lldb vim
	nvim vi view ex emacs emacsclient nano micro hx code codium`)

// wrappers are programs that execute another one which their arguments name, in a way that the tables of package program don't have.
var wrappers = lazy.Set(`strace ltrace valgrind perf rr heaptrack hyperfine uftrace bpftrace gdbserver watch entr watchexec reflex inotifywait xvfb-run
	dbus-run-session dbus-launch fakeroot fakechroot faketime proxychains proxychains4 torsocks torify tsocks unshare nsenter bwrap firejail systemd-inhibit
	caffeinate gnome-terminal xterm konsole alacritty kitty tmux screen byobu zellij dtach abduco mosh expect unbuffer socat ncat at batch crontab wine
	qemu-user box64 apptainer singularity distrobox toolbox flatpak snap-run steam-run doas-run op aws-vault envchain dotenv foreman overmind honcho`)

// executesOthers doubts a program that executes what no argument names, or that searches for another one.
func (c *collector) executesOthers(name string) {
	switch name = filepath.Base(name); {
	case projects()[name]:
		c.doubt(name + " executes files of the project that its arguments don't name")
	case wrappers()[name]:
		c.doubt(name + " executes another program")
	}
}
