package program

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/policy/envname"
)

// Kind is what the value of an environment variable is to programs.
type Kind uint8

// The kinds.
const (
	Plain         Kind = iota // no program is known to execute or load anything because of it
	CommandLine               // a command line that programs hand to a shell
	CommandPrefix             // one to which they add words
	Risky                     // it makes programs load or execute something, or changes which programs, files or settings they use
)

// commandVariables are the variables with a command line for a shell.
var commandVariables = lazy.Set(`PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER GH_PAGER BAT_PAGER DELTA_PAGER AWS_PAGER PSQL_PAGER MANROFFOPT PROMPT_COMMAND`)

// prefixVariables are the variables with a command line to which programs add words.
var prefixVariables = lazy.Set(`EDITOR VISUAL GIT_EDITOR SVN_EDITOR HGEDITOR SUDO_EDITOR SYSTEMD_EDITOR KUBE_EDITOR CRONTAB_EDITOR FCEDIT
	GIT_SSH_COMMAND GIT_SEQUENCE_EDITOR LESSOPEN LESSCLOSE BROWSER GH_BROWSER GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH
	CVS_RSH BORG_RSH RSYNC_CONNECT_PROG`)

// plainVariables are exceptions from the prefixes below.
var plainVariables = lazy.Set(`NODE_ENV NODE_NO_WARNINGS NODE_DEBUG GOOS GOARCH GOARM GOAMD64 GOMAXPROCS GOGC GOMEMLIMIT GOTRACEBACK CGO_ENABLED PYTHONUNBUFFERED
	PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONFAULTHANDLER GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE
	GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT GIT_LITERAL_PATHSPECS
	CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR UV_OFFLINE
	NPM_CONFIG_LOGLEVEL npm_config_loglevel npm_config_yes NO_PROXY no_proxy CMAKE_BUILD_TYPE CMAKE_BUILD_PARALLEL_LEVEL
	CTEST_OUTPUT_ON_FAILURE BUNDLE_JOBS`)

// riskyVariables are variables of the other kind that envname doesn't have, as it's about grants by prefix. A name that ends with "*" is a
// prefix.
var riskyVariables = strings.Fields(`PATH IFS HOME CDPATH SHELL GLOBIGNORE HISTFILE HISTCONTROL TMOUT FPATH MODULE_PATH INPUTRC TERMINFO TERMINFO_DIRS
	TERMCAP XDG_* GIT_* LESS LESSKEY* MORE MANPATH MANOPT TAR_OPTIONS TAPE TAR_RSH RSH RSYNC_* GREP_OPTIONS ZIPOPT UNZIP GZIP XZ_OPT XZ_DEFAULTS POSIXLY_CORRECT
	PYTHON* PYTEST_* NODE_* PERL* RUBY* GEM_* BUNDLE_* LUA_* PHP* JAVA* JDK_* JRE_* _JAVA* MAVEN_* GRADLE_* ANT_* SBT_* KOTLIN_* R_* JULIA_* ERL_* ELIXIR_*
	GHC* STACK_* npm_config_* NPM_CONFIG_* YARN_* PNPM_* BUN_* DENO_* COREPACK_* PIP_* UV_* PIPX_* POETRY_* CONDA_* VIRTUAL_ENV* CARGO_* RUSTC* RUSTUP_*
	RUSTFLAGS RUSTDOC* GO* CGO_* CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY FC F77 CFLAGS CXXFLAGS CPPFLAGS LDFLAGS GCC_* COMPILER_PATH LIBRARY_PATH
	CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH MAKE MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES CMAKE_* CTEST_* NINJA_* PKG_CONFIG* AWKPATH AWKLIBPATH
	GAWK_* SED_* EMACS* VIM* VIMINIT EXINIT NVIM_* MYVIMRC TCLLIBPATH TCL_LIBRARY GUILE_* OPENSSL_* SSLKEYLOGFILE SSL_CERT_* CURL_HOME CURL_CA_BUNDLE
	CURLOPT_* WGETRC NETRC SSH_* SSH_AUTH_SOCK KRB5* GSS_* DOCKER_* CONTAINER_* KUBECONFIG HELM_* TF_* ANSIBLE_* VAGRANT_* AWS_CONFIG_FILE
	AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_* GTK_* QT_* GIO_* GST_* GDK_* DBUS_* DISPLAY WAYLAND_DISPLAY XAUTHORITY LIBGL_* VK_* MESA_* OCL_*
	LIBVA_* PULSE_* FONTCONFIG_* ALSA_* SDL_* HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY http_proxy https_proxy all_proxy ftp_proxy
	no_proxy HOSTALIASES RES_OPTIONS LOCALDOMAIN RESOLV_* NSS_* TZDIR LOCPATH GCONV_PATH NLSPATH TMUX* SCREEN* STARSHIP_* DIRENV_*
	TOOLGUARD_*`)

// RiskyVariable returns of an assigned variable what its value is.
func RiskyVariable(name string) Kind {
	if commandVariables()[name] {
		return CommandLine
	}
	if prefixVariables()[name] {
		return CommandPrefix
	}
	if plainVariables()[name] {
		return Plain
	}
	if envname.NamesCode(name) {
		return Risky
	}
	for _, n := range riskyVariables {
		if envname.Matches(n, name) {
			return Risky
		}
	}
	return Plain
}
