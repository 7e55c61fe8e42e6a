// Package envname classifies and matches names of environment variables. It's pure: it never reads the environment.
//
// A policy may grant variables by prefix or by default. Variables that name code to execute, and variables that look like credentials, are
// too dangerous for that: NeedsExactRule returns them. The lists are a safety net against policies that are too broad, not a boundary:
// a variable that they lack is granted by a prefix like any other.
package envname

import (
	"fmt"
	"slices"
	"strings"
)

// Forms describes the names that Check accepts.
const Forms = `a name is exact, or a prefix with one "*" at its end`

// Check returns an error if name can't be the name of a rule.
func Check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("an empty name of a variable")
	case strings.Contains(strings.TrimSuffix(name, "*"), "*"):
		return fmt.Errorf(`%q has a "*" that isn't its end`, name)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '=' || r == 0x7f }):
		return fmt.Errorf(`%q isn't the name of a variable`, name)
	}
	return nil
}

// Matches reports whether a rule's name, exact or with a "*" at its end, matches the variable name.
func Matches(rule, name string) bool {
	if p, ok := strings.CutSuffix(rule, "*"); ok {
		return strings.HasPrefix(name, p)
	}
	return rule == name
}

// codeVariables are the variables that name code which loaders, interpreters and common programs execute. A name that ends with "*" is a
// prefix.
var codeVariables = strings.Fields(`LD_* GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH MALLOC_TRACE DYLD_*
	BASH_ENV ENV BASH_FUNC_* PROMPT_COMMAND SHELLOPTS BASHOPTS PS4 ZDOTDIR
	PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONPLATLIBDIR PYTHONUSERBASE
	NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYLIB RUBYOPT GEM_PATH LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR
	JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH R_PROFILE R_PROFILE_USER R_ENVIRON
	GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS
	GIT_CONFIG_COUNT GIT_CONFIG_KEY_* GIT_CONFIG_VALUE_* GIT_CONFIG_PARAMETERS
	LESSOPEN LESSCLOSE MANPAGER BROWSER RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER MAKEFILES OPENSSL_CONF OPENSSL_MODULES GTK_MODULES QT_PLUGIN_PATH`)

// searchPaths are the code variables whose value is a list of folders from which code is loaded.
var searchPaths = map[string]bool{"PYTHONPATH": true, "NODE_PATH": true, "PERL5LIB": true, "RUBYLIB": true, "CLASSPATH": true}

// IsSearchPath reports whether a variable's value is a list of folders from which an interpreter loads code.
func IsSearchPath(name string) bool { return searchPaths[name] }

// NamesCode reports whether a variable names code that loaders, interpreters and common programs execute.
func NamesCode(name string) bool {
	return slices.ContainsFunc(codeVariables, func(n string) bool { return Matches(n, name) })
}

// NeedsExactRule returns why only a rule with exactly this name grants the variable, and no prefix or default does: it makes programs execute
// other code, or it looks like a credential. It's "" for any other variable.
func NeedsExactRule(name string) string {
	if NamesCode(name) {
		return "it makes programs execute other code"
	}
	if LooksSecret(name) {
		return "it looks like a credential"
	}
	return ""
}

// shellState are the variables in which shells record the current folder and their depth. Every shell sets them itself, so only a rule that
// denies them removes them.
var shellState = map[string]bool{"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true}

// IsShellState reports whether every shell sets the variable itself.
func IsShellState(name string) bool { return shellState[name] }

// secretWords are the words between the underscores of a variable's name that mark its value as a secret.
var secretWords = []string{
	"PASS", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "PW", "SECRET", "SECRETS", "TOKEN", "TOKENS", "CREDENTIAL", "CREDENTIALS",
	"COOKIE", "JWT", "PAT", "DSN", "KEY", "APIKEY", "ACCESSKEY", "PRIVATEKEY", "SECRETKEY", "SIGNINGKEY", "ENCRYPTIONKEY",
	"AUTHKEY",
}

// LooksSecret reports whether a variable's name looks like a secret's. Each start checks every variable: to compile a regular expression would
// take 0.1 ms.
func LooksSecret(name string) bool {
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
