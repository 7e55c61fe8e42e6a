package policy

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// codeVariables are those by which loaders, interpreters and programs that everybody starts execute code that the variable names. A name that
// ends with "*" is a prefix.
var codeVariables = strings.Fields(`LD_* GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH MALLOC_TRACE DYLD_*
	BASH_ENV ENV BASH_FUNC_* PROMPT_COMMAND SHELLOPTS BASHOPTS PS4 ZDOTDIR
	PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONPLATLIBDIR PYTHONUSERBASE
	NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYLIB RUBYOPT GEM_PATH LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR
	JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH R_PROFILE R_PROFILE_USER R_ENVIRON
	GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS
	GIT_CONFIG_COUNT GIT_CONFIG_KEY_* GIT_CONFIG_VALUE_* GIT_CONFIG_PARAMETERS
	LESSOPEN LESSCLOSE MANPAGER BROWSER RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER MAKEFILES OPENSSL_CONF OPENSSL_MODULES GTK_MODULES QT_PLUGIN_PATH`)

// searchPaths are those of the code variables whose value is a list of folders: code comes from there, and not from elsewhere.
var searchPaths = map[string]bool{"PYTHONPATH": true, "NODE_PATH": true, "PERL5LIB": true, "RUBYLIB": true, "CLASSPATH": true}

// NamedAlone says why only a rule that has exactly this name hands a variable on, no prefix and no default: through it other code is executed,
// or it looks as if it held a credential. It's "" for any other variable.
func NamedAlone(name string) string {
	for _, n := range codeVariables {
		if EnvMatches(n, name) {
			return "it makes programs execute other code"
		}
	}
	if SecretVariable(name) {
		return "it looks like a credential"
	}
	return ""
}

// Inside says whether a variable only lists folders of the workspace, from which code may come.
func (c *Compiled) Inside(name, value string) bool {
	if !searchPaths[name] {
		return false
	}
	for dir := range strings.SplitSeq(value, ":") {
		if dir == "" || !fspath.Within(dir, c.Workspace) || strings.Contains(dir+"/", "/../") {
			return false
		}
	}
	return true
}

// secretWords are the words of a variable's name, between its underscores, that say that its value is a secret.
var secretWords = []string{
	"PASS", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "PW", "SECRET", "SECRETS", "TOKEN", "TOKENS", "CREDENTIAL", "CREDENTIALS",
	"COOKIE", "JWT", "PAT", "DSN", "KEY", "APIKEY", "ACCESSKEY", "PRIVATEKEY", "SECRETKEY", "SIGNINGKEY", "ENCRYPTIONKEY",
	"AUTHKEY",
}

// SecretVariable says whether a variable looks as if it held a secret. Every start asks about every variable: an expression would take 0.1 ms to
// be compiled.
func SecretVariable(name string) bool {
	if name == "PWD" || name == "OLDPWD" {
		return false
	}
	for word := range strings.SplitSeq(name, "_") {
		if slices.ContainsFunc(secretWords, func(w string) bool { return strings.EqualFold(w, word) }) {
			return true
		}
	}
	return false
}
