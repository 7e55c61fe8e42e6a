package event

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mask replaces secrets.
const mask = "***"

// The maximum length of a command line in arguments and bytes: of the event's process, and of each ancestor.
const (
	maxArgs         = 64
	maxCommandLine  = 4096
	maxAncestorArgs = 16
	maxAncestorLine = 512
)

// secretName matches the end of a name whose value is a secret.
const secretName = `(pass(word|wd|phrase|code)?s?|[-_;"']pwd|(\b|_)(pw|psk|pat|otp|pin|jwt|sas)|secrets?|tokens?|` +
	`(api|access|account|private|secret|signing|encryption|auth|subscription|master|[-_])[-_]?key|` +
	`signature|auth(orization)?|bearer|cred(ential)?s?|cookie|session[-_]?id|hmac|from-literal)`

// quotedValue matches a value in a script, a header or a body: in quotes, where the closing one may be missing, in parentheses, or
// a word, whose pattern follows.
const quotedValue = `('[^']*'?|"(\\.|[^"\\])*"?|\([^)]*\)?|`

// tokenPrefixes matches tokens with a known prefix.
const tokenPrefixes = `(gh[pousr]_|github_pat_|gl[a-z]{2,4}-|sk-|npm_|pypi-|rubygems_|hv[sb]\.|dckr_pat_|do[opr]_v1_|shp(at|ca|pa|ss)_|` +
	`hf_|lin_api_|ATATT|PMAK-|NRAK-|AIza|tskey-|sntry[su]_)[\w=-]{16,}|` +
	`([sr]k_(live|test)_|xox[abeoprs]-|xapp-|ya29\.)[\w-]{10,}|(AKIA|ASIA)[0-9A-Z]{16}|` +
	`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|SG\.[\w-]{16,}\.[\w-]+|AGE-SECRET-KEY-1\w*|bot\d{6,}:[\w-]{20,}|` +
	`hooks\.slack\.com/\S+|discord(app)?\.com/api/webhooks/\S+`

// passwordFlags lists programs and their flags for a password whose names don't match secretName. The value is the next argument,
// or attached to the flag where the pattern has no $.
var passwordFlags = [][2]string{
	{
		`sshpass|mysql[\w.-]*|mariadb[\w-]*|mycli|my(?:dump|load)er|(?:xtra|maria)backup|pt-[\w-]+|mongo\w*|cqlsh|7z\w*|(?:un)?rar|twine|poetry|rdesktop|evil-winrm|user(?:add|mod)|az`,
		`-[vstBNACfnqrwEGHXibcLjUe]*h?p`,
	},
	{`sqlcmd|bcp|isql|tsql|mosquitto_\w+|ipmitool|(?:un)?zip`, `-P`},
	{`redis-cli`, `-a|auth$`},
	{`https?|xh`, `-a`},
	{`curl`, `-[Eb]|--cert$`},
	{`ldap\w+`, `-w`},
	{`snmp\w+`, `-[cAX]`},
	{`plink|pscp|psftp|swaks`, `-[ap][pw]$`},
	{`doctl|dotnet`, `-[tkp]$`},
	{`openssl`, `-(?:[kK]|hmac)$`},
	{`[wx]lfreerdp\d?|xfreerdp\d?`, `/g?p:`},
	{`sqlplus|sqlldr|expdp|impdp`, `\w+/`},
	{`vault|cargo`, `(?:login|unseal)$`},
	{`nmcli`, `password$`},
	{`[\w.-]+\s(?:[^|;&\n]*\s)?login`, `-p`},
}

// patterns compiles the regular expressions at the first use, because most runs have no event with arguments.
var patterns = sync.OnceValue(func() (p struct {
	name, account, token, header, flag, assigned, element, login, at, oracle, program, url *regexp.Regexp

	flags [][2]*regexp.Regexp // passwordFlags
},
) {
	p.name = regexp.MustCompile(`(?i)` + secretName + `$`)
	p.account = regexp.MustCompile(`^(-[a-zA-Z]*[uU]|--(proxy-)?user)$`)
	p.token = regexp.MustCompile(`(?i)\b(` + tokenPrefixes + `)|\b(bearer|basic)\s+[\w.~+/=-]{6,}|` +
		`(?s:-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\z))`)
	// Within an argument that is more than one word: a script, a header, a body.
	p.header = regexp.MustCompile(`(?i)\b(authorization|cookie)\s*:[^'"\n]*`)
	// The value after such a name is a secret. If the value is such a name itself, the one after it is, too.
	const named, blank = `--?[\w-]*` + secretName, `[\s\\]+`
	p.flag = regexp.MustCompile(`(?i)((^|\s)` + named + `)` + blank + `(` + named + blank + `)*` + quotedValue + `[^\s'"]+)`)
	p.assigned = regexp.MustCompile(`(?i)(` + secretName + `["']?\]?\s*[=:]\s*)` + quotedValue + `(\\.|[^\s'";&|,}\\])+)`)
	p.element = regexp.MustCompile(`(?i)(<[\w:.-]*` + secretName + `>)[^<]+`)
	// The password of an account, and before the @ of a host outside a URL.
	p.login = regexp.MustCompile(`((?:^|\s)(?:-[a-zA-Z]*[uU]|--(?:proxy-)?user)[\s=]*['"]?[^\s:%='"/]+[:%])[^\s'"]+`)
	p.at = regexp.MustCompile(`((?:^|[\s=])[\w.%+/\\-]+:)[^\s'"/@:]+(@(?:[\w.-]+(?::\d+)?(?:[\s/'"]|$)|\w+\())`)
	p.oracle = regexp.MustCompile(`(:(?:thin|oci):\w+/)[^@\s]+(@)`)
	var all []string
	for _, is := range passwordFlags {
		p.flags = append(p.flags, [2]*regexp.Regexp{regexp.MustCompile(`^(?:` + is[0] + `)$`), regexp.MustCompile(`^(?:` + is[1] + `)`)})
		all = append(all, `(?:`+is[0]+`)\s(?:[^|;&\n]*?\s)?(?:`+strings.ReplaceAll(is[1], "$", `\s`)+`)`)
	}
	p.program = regexp.MustCompile(`((?:^|[\s/;&|])(?:` + strings.Join(all, "|") + `)\s*)` + quotedValue + `[^\s'"]+)`)
	p.url = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://\S*`)
	return p
})

// passwordFlagsOf returns the password flags of the programs in a command line. Launchers may precede a program: sudo, env,
// timeout, docker exec.
func passwordFlagsOf(argv []string) (flags []*regexp.Regexp) {
	for i, is := range patterns().flags {
		login := i == len(passwordFlags)-1
		if login && slices.Index(argv, "login") > 0 || !login && slices.ContainsFunc(argv, func(a string) bool { return is[0].MatchString(path.Base(a)) }) {
			flags = append(flags, is[1])
		}
	}
	return flags
}

// matchFlag returns the length of the password flag at the start of an argument, or 0.
func matchFlag(a string, flags []*regexp.Regexp) int {
	for _, f := range flags {
		if at := f.FindStringIndex(a); at != nil {
			return at[1]
		}
	}
	return 0
}

// namesSecret reports whether argument i is the name of a secret that follows it.
func namesSecret(argv []string, i int) bool {
	a := argv[i]
	if i == 0 || strings.Contains(a, "=") || !patterns().name.MatchString(a) {
		return false
	}
	return strings.HasPrefix(a, "-") || slices.Contains([]string{"set", "config", "--arg"}, argv[i-1])
}

// RedactArgv masks likely secrets in a command line: the value of --password=x and of --password x, the password of
// --user me:x, TOKEN=x, headers, the same within scripts and bodies, tokens with a known beginning, private keys, the user part
// and the query of a URL. It returns a new slice.
func RedactArgv(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	out := make([]string, len(argv))
	hide, flags := false, passwordFlagsOf(argv)
	for i, a := range argv {
		out[i] = redactArgument(a)
		if name, sep, ok := cutAny(a, ":%"); ok && i > 0 && patterns().account.MatchString(argv[i-1]) {
			out[i] = name + sep + mask
		}
		flag := matchFlag(a, flags)
		switch {
		case i == 0:
			continue
		case a == "--" && hide:
			continue // the value follows
		case hide:
			out[i] = mask
		case argv[i-1] == "--cookie" && strings.Contains(a, "="):
			out[i] = mask
		case flag > 0 && len(a) > flag:
			out[i] = a[:flag] + mask
		}
		hide = flag > 0 && len(a) == flag || namesSecret(argv, i)
	}
	return out
}

// cutAny cuts a string at the first of the characters.
func cutAny(s, chars string) (before, sep string, ok bool) {
	i := strings.IndexAny(s, chars)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i : i+1], true
}

// TruncateArgv returns the beginning of a command line, with … for the rest.
func TruncateArgv(argv []string) []string { return truncateArgv(argv, maxArgs, maxCommandLine) }

func truncateArgv(argv []string, maxArgs, left int) []string {
	for i, a := range argv {
		if i < maxArgs && len(a) <= left {
			left -= len(a)
			continue
		}
		rest := "…"
		if i < maxArgs {
			rest = truncate(a, left)
		}
		return append(slices.Clone(argv[:i]), rest)
	}
	return argv
}

// AsAncestor returns the process as it is reported in the chain of its descendants: with a shorter command line, without secrets.
func (p Process) AsAncestor() Process {
	p.Argv, p.redacted = RedactArgv(truncateArgv(p.Argv, maxAncestorArgs, maxAncestorLine)), true
	return p
}

func redactArgument(a string) string {
	if name, _, ok := strings.Cut(a, "="); ok && patterns().name.MatchString(name) && !strings.ContainsAny(name, " \t\n:") {
		return name + "=" + mask
	}
	if name, value, ok := strings.Cut(a, ":"); ok && !strings.HasPrefix(value, "//") && patterns().name.MatchString(name) {
		return redactText(name) + ": " + mask // a header, or the script before one
	}
	return redactText(a)
}

// redactText masks recognizable secrets within a text.
func redactText(s string) string {
	p := patterns()
	s = p.token.ReplaceAllString(s, mask)
	if strings.ContainsAny(s, "=: \t\n") {
		s = p.header.ReplaceAllString(s, "$1: "+mask)
		s = p.flag.ReplaceAllString(s, "$1 "+mask)
		s = p.assigned.ReplaceAllString(s, "${1}"+mask)
		s = p.program.ReplaceAllString(s, "${1}"+mask)
	}
	if strings.Contains(s, "<") {
		s = p.element.ReplaceAllString(s, "${1}"+mask)
	}
	s = p.url.ReplaceAllStringFunc(s, redactURL)
	if strings.Contains(s, ":") {
		s = p.login.ReplaceAllString(s, "${1}"+mask)
		s = p.at.ReplaceAllString(s, "${1}"+mask+"$2")
		s = p.oracle.ReplaceAllString(s, "${1}"+mask+"$2")
	}
	return s
}

// redactURL masks the user part, the query and the fragment of a URL. A password may contain slashes and @.
func redactURL(u string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i] + "?" + mask
	}
	authority, _, _ := strings.Cut(rest, "/")
	user := strings.LastIndexByte(authority, '@')
	_, port, ok := strings.Cut(authority, ":")
	if ok && user < 0 && strings.Trim(port, "0123456789") != "" && port[0] != '[' && authority[0] != '[' {
		if user = strings.LastIndexByte(rest, '@'); user < 0 {
			return scheme + "://" + mask // no port, and no @ ends the password
		}
	}
	if user >= 0 {
		rest = mask + rest[user:]
	}
	return scheme + "://" + rest
}

// Clean returns the event truncated and without secrets. It doesn't change e. It takes longer than everything else about an
// event, so it runs once for each event, where nothing waits for it.
func (e *Event) Clean() Event {
	if e.clean {
		return *e
	}
	out := redact(e.truncated())
	out.clean = true
	return out
}

// redact returns an event without secrets.
func redact(e Event) Event {
	if e.Kind.IsAboutCall() {
		e.redactCall()
	} else if e.Resource == "net" {
		e.Target, e.Asked = redactTarget(e.Target), redactTarget(e.Asked)
		if redactText(e.Suggest) != e.Suggest {
			e.Suggest = "" // masked, it would grant something else
		}
		if e.Extra != nil {
			extra := make(map[string]string, len(e.Extra))
			for k, v := range e.Extra {
				extra[k] = redactText(v)
			}
			e.Extra = extra
		}
	}
	chain := make([]Process, len(e.Process))
	for i, p := range e.Process {
		switch {
		case p.redacted:
		case i > 0:
			p = p.AsAncestor()
		default:
			p.Argv, p.redacted = RedactArgv(TruncateArgv(p.Argv)), true
		}
		chain[i] = p
	}
	if e.Process != nil {
		e.Process = chain
	}
	return e
}

// redactCall masks secrets in an event about a call, where the host chooses nearly all strings.
func (e *Event) redactCall() {
	e.Target, e.Asked = redactText(e.Target), redactText(e.Asked)
	if e.Resource == "net" {
		e.Target = redactTarget(e.Target)
	}
	if redactText(e.Suggest) != e.Suggest {
		e.Suggest = "" // masked, it would grant something else
	}
	extra := make(map[string]string, len(e.Extra))
	for k, v := range e.Extra {
		if k == "arguments" {
			extra[k] = redactArguments(v)
			continue
		}
		extra[k] = redactText(v)
	}
	if e.Extra != nil {
		e.Extra = extra
	}
}

// redactTarget is redactText for a string that is a URL, or the end of one.
func redactTarget(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i] + "?" + mask
	}
	return redactText(s)
}

// commandLine joins arguments so that the end of each is visible.
func commandLine(argv []string) string {
	var b strings.Builder
	for i, a := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == maxArgs || b.Len() > maxCommandLine {
			b.WriteString("…")
			break
		}
		if a == "" {
			a = `""`
		} else {
			a = Quote(a)
		}
		if len(a) > maxCommandLine {
			a = strings.ToValidUTF8(a[:maxCommandLine], "") + "…"
		}
		b.WriteString(a)
	}
	return b.String()
}
