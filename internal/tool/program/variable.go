package program

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/envname"
)

// Kind is what the value of an environment variable is to programs.
type Kind uint8

// The kinds.
const (
	Plain       Kind = iota // no program is known to execute or load anything because of it
	CommandLine             // a command line that programs hand to a shell
	Risky                   // it makes programs load or execute something, or changes which programs, files or settings they use
)

// commandVariables are the variables with a command line for a shell.
var commandVariables = fieldSet(`PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER GH_PAGER BAT_PAGER DELTA_PAGER AWS_PAGER PSQL_PAGER MANROFFOPT EDITOR
	VISUAL GIT_EDITOR SVN_EDITOR HGEDITOR SUDO_EDITOR SYSTEMD_EDITOR KUBE_EDITOR CRONTAB_EDITOR FCEDIT GIT_SSH_COMMAND GIT_SEQUENCE_EDITOR
	LESSOPEN LESSCLOSE BROWSER GH_BROWSER GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH CVS_RSH BORG_RSH RSYNC_CONNECT_PROG
	TAR_OPTIONS_COMMAND PROMPT_COMMAND`)

// riskyVariables are variables of the other kind that envname doesn't have, as it's about grants by prefix. A name that ends with "*" is a
// prefix.
var riskyVariables = strings.Fields(`PATH IFS HOME CDPATH SHELL GLOBIGNORE HISTFILE HISTCONTROL TMOUT FPATH MODULE_PATH INPUTRC TERMINFO TERMINFO_DIRS
	TERMCAP XDG_* GIT_* LESS LESSKEY* MORE MANPATH MANOPT TAR_OPTIONS RSYNC_* GREP_OPTIONS ZIPOPT UNZIP GZIP XZ_OPT XZ_DEFAULTS POSIXLY_CORRECT
	PYTHON* NODE_* PERL* RUBY* GEM_* BUNDLE_* LUA_* PHP* JAVA* JDK_* JRE_* _JAVA* MAVEN_* GRADLE_* ANT_* SBT_* KOTLIN_* R_* JULIA_* ERL_* ELIXIR_*
	GHC* STACK_* npm_config_* NPM_CONFIG_* YARN_* PNPM_* BUN_* DENO_* COREPACK_* PIP_* UV_* PIPX_* POETRY_* CONDA_* VIRTUAL_ENV* CARGO_* RUSTC* RUSTUP_*
	RUSTFLAGS RUSTDOC* GO* CGO_* CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY FC F77 CFLAGS CXXFLAGS CPPFLAGS LDFLAGS GCC_* COMPILER_PATH LIBRARY_PATH
	CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH MAKE MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES CMAKE_* CTEST_* NINJA_* PKG_CONFIG* AWKPATH AWKLIBPATH
	GAWK_* SED_* EMACS* VIM* VIMINIT EXINIT NVIM_* MYVIMRC TCLLIBPATH TCL_LIBRARY GUILE_* OPENSSL_* SSLKEYLOGFILE SSL_CERT_* CURL_HOME CURL_CA_BUNDLE
	CURLOPT_* WGETRC NETRC SSH_* SSH_AUTH_SOCK KRB5* GSS_* DOCKER_* CONTAINER_* KUBECONFIG HELM_* TF_* ANSIBLE_* VAGRANT_* AWS_CONFIG_FILE
	AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_* GTK_* QT_* GIO_* GST_* GDK_* DBUS_* DISPLAY WAYLAND_DISPLAY XAUTHORITY LIBGL_* VK_* MESA_* OCL_*
	LIBVA_* PULSE_* FONTCONFIG_* ALSA_* SDL_* HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY http_proxy https_proxy all_proxy ftp_proxy
	no_proxy HOSTALIASES RES_OPTIONS LOCALDOMAIN RESOLV_* NSS_* TMPDIR TMP TEMP TZDIR LOCPATH GCONV_PATH NLSPATH TMUX* SCREEN* STARSHIP_* DIRENV_*
	TOOLGUARD_*`)

// RiskyVariable returns of an assigned variable what its value is.
func RiskyVariable(name string) Kind {
	if commandVariables[name] {
		return CommandLine
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
