package event

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// masked stands for what isn't shown.
const masked = "***"

// These bound what of a command line is told, which can be as long as whoever chose it likes: of the process that it's about, in
// arguments and bytes, and of those that it comes from, which are many.
const (
	maxArgs        = 64
	maxCommandLine = 4096
	maxFormerArgs  = 16
	maxFormerLine  = 512
)

// secretName is how what is worth hiding is called, at the end of a name.
const secretName = `(pass(word|wd|phrase|code)?s?|[-_;"']pwd|(\b|_)(pw|psk|pat|otp|pin|jwt|sas)|secrets?|tokens?|` +
	`(api|access|account|private|secret|signing|encryption|auth|subscription|master|[-_])[-_]?key|` +
	`signature|auth(orization)?|bearer|cred(ential)?s?|cookie|session[-_]?id|hmac|from-literal)`

// quoted is a value in a script, a header or a body: in quotes, of which the last may be missing, in parentheses, or a word.
const quoted = `('[^']*'?|"(\\.|[^"\\])*"?|\([^)]*\)?|`

// known are tokens that are known by their beginnings.
const known = `(gh[pousr]_|github_pat_|gl[a-z]{2,4}-|sk-|npm_|pypi-|rubygems_|hv[sb]\.|dckr_pat_|do[opr]_v1_|shp(at|ca|pa|ss)_|` +
	`hf_|lin_api_|ATATT|PMAK-|NRAK-|AIza|tskey-|sntry[su]_)[\w=-]{16,}|` +
	`([sr]k_(live|test)_|xox[abeoprs]-|xapp-|ya29\.)[\w-]{10,}|(AKIA|ASIA)[0-9A-Z]{16}|` +
	`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|SG\.[\w-]{16,}\.[\w-]+|AGE-SECRET-KEY-1\w*|bot\d{6,}:[\w-]{20,}|` +
	`hooks\.slack\.com/\S+|discord(app)?\.com/api/webhooks/\S+`

// programs are those whose flags for a password say it by a letter, or not at all, with these flags. The value comes after, or is
// attached where there's no $.
var programs = [][2]string{
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

// patterns are compiled at the first use: most runs have no event with arguments.
var patterns = sync.OnceValue(func() (p struct {
	name, account, token, header, flag, assigned, element, login, at, oracle, program, url *regexp.Regexp

	flags [][2]*regexp.Regexp // of programs
},
) {
	p.name = regexp.MustCompile(`(?i)` + secretName + `$`)
	p.account = regexp.MustCompile(`^(-[a-zA-Z]*[uU]|--(proxy-)?user)$`)
	p.token = regexp.MustCompile(`(?i)\b(` + known + `)|\b(bearer|basic)\s+[\w.~+/=-]{6,}|` +
		`(?s:-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\z))`)
	// Within an argument that is more than one word: a script, a header, a body.
	p.header = regexp.MustCompile(`(?i)\b(authorization|cookie)\s*:[^'"\n]*`)
	// What comes after such a name is a secret, and where that's such a name itself what comes then.
	const named, blank = `--?[\w-]*` + secretName, `[\s\\]+`
	p.flag = regexp.MustCompile(`(?i)((^|\s)` + named + `)` + blank + `(` + named + blank + `)*` + quoted + `[^\s'"]+)`)
	p.assigned = regexp.MustCompile(`(?i)(` + secretName + `["']?\]?\s*[=:]\s*)` + quoted + `(\\.|[^\s'";&|,}\\])+)`)
	p.element = regexp.MustCompile(`(?i)(<[\w:.-]*` + secretName + `>)[^<]+`)
	// The password of an account, and before the @ of a host that no URL is of.
	p.login = regexp.MustCompile(`((?:^|\s)(?:-[a-zA-Z]*[uU]|--(?:proxy-)?user)[\s=]*['"]?[^\s:%='"/]+[:%])[^\s'"]+`)
	p.at = regexp.MustCompile(`((?:^|[\s=])[\w.%+/\\-]+:)[^\s'"/@:]+(@(?:[\w.-]+(?::\d+)?(?:[\s/'"]|$)|\w+\())`)
	p.oracle = regexp.MustCompile(`(:(?:thin|oci):\w+/)[^@\s]+(@)`)
	var all []string
	for _, is := range programs {
		p.flags = append(p.flags, [2]*regexp.Regexp{regexp.MustCompile(`^(?:` + is[0] + `)$`), regexp.MustCompile(`^(?:` + is[1] + `)`)})
		all = append(all, `(?:`+is[0]+`)\s(?:[^|;&\n]*?\s)?(?:`+strings.ReplaceAll(is[1], "$", `\s`)+`)`)
	}
	p.program = regexp.MustCompile(`((?:^|[\s/;&|])(?:` + strings.Join(all, "|") + `)\s*)` + quoted + `[^\s'"]+)`)
	p.url = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://\S*`)
	return p
})

// letters are the flags by which a command takes a password by a letter. A program may be started by others, which are before it: sudo, env,
// timeout, docker exec.
func letters(argv []string) (flags []*regexp.Regexp) {
	for i, is := range patterns().flags {
		login := i == len(programs)-1
		if login && slices.Index(argv, "login") > 0 || !login && slices.ContainsFunc(argv, func(a string) bool { return is[0].MatchString(path.Base(a)) }) {
			flags = append(flags, is[1])
		}
	}
	return flags
}

// lettered is how much of an argument is such a flag; 0: it's none.
func lettered(a string, flags []*regexp.Regexp) int {
	for _, f := range flags {
		if at := f.FindStringIndex(a); at != nil {
			return at[1]
		}
	}
	return 0
}

// says tells whether an argument is the name of what comes after.
func says(argv []string, i int) bool {
	a := argv[i]
	if i == 0 || strings.Contains(a, "=") || !patterns().name.MatchString(a) {
		return false
	}
	return strings.HasPrefix(a, "-") || slices.Contains([]string{"set", "config", "--arg"}, argv[i-1])
}

// RedactArgv masks what looks like a secret in a command line: the value of --password=x and of --password x, the password of
// --user me:x, TOKEN=x, headers, the same within scripts and bodies, tokens with a known beginning, private keys, the user part
// and the query of a URL. It returns a new slice.
func RedactArgv(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	out := make([]string, len(argv))
	hide, flags := false, letters(argv)
	for i, a := range argv {
		out[i] = redactArg(a)
		if name, sep, ok := cutAny(a, ":%"); ok && i > 0 && patterns().account.MatchString(argv[i-1]) {
			out[i] = name + sep + masked
		}
		flag := lettered(a, flags)
		switch {
		case i == 0:
			continue
		case a == "--" && hide:
			continue // the value comes still
		case hide:
			out[i] = masked
		case argv[i-1] == "--cookie" && strings.Contains(a, "="):
			out[i] = masked
		case flag > 0 && len(a) > flag:
			out[i] = a[:flag] + masked
		}
		hide = flag > 0 && len(a) == flag || says(argv, i)
	}
	return out
}

// cutAny cuts a string at the first of these characters.
func cutAny(s, chars string) (before, sep string, ok bool) {
	i := strings.IndexAny(s, chars)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i : i+1], true
}

// ShortArgv is the beginning of a command line, with … for what is left out.
func ShortArgv(argv []string) []string { return shortArgv(argv, maxArgs, maxCommandLine) }

func shortArgv(argv []string, most, room int) []string {
	for i, a := range argv {
		if i < most && len(a) <= room {
			room -= len(a)
			continue
		}
		rest := "…"
		if i < most {
			rest = cut(a, room)
		}
		return append(slices.Clone(argv[:i]), rest)
	}
	return argv
}

// Former is a process that others come from, as it's told with each of them: with the beginning of its command line, without
// secrets.
func (p Process) Former() Process {
	p.Argv, p.masked = RedactArgv(shortArgv(p.Argv, maxFormerArgs, maxFormerLine)), true
	return p
}

func redactArg(a string) string {
	if name, _, ok := strings.Cut(a, "="); ok && patterns().name.MatchString(name) && !strings.ContainsAny(name, " \t\n:") {
		return name + "=" + masked
	}
	if name, value, ok := strings.Cut(a, ":"); ok && !strings.HasPrefix(value, "//") && patterns().name.MatchString(name) {
		return redactText(name) + ": " + masked // a header, or what comes before one in a script
	}
	return redactText(a)
}

// redactText masks what can be told to be a secret by itself, wherever it stands.
func redactText(s string) string {
	p := patterns()
	s = p.token.ReplaceAllString(s, masked)
	if strings.ContainsAny(s, "=: \t\n") {
		s = p.header.ReplaceAllString(s, "$1: "+masked)
		s = p.flag.ReplaceAllString(s, "$1 "+masked)
		s = p.assigned.ReplaceAllString(s, "${1}"+masked)
		s = p.program.ReplaceAllString(s, "${1}"+masked)
	}
	if strings.Contains(s, "<") {
		s = p.element.ReplaceAllString(s, "${1}"+masked)
	}
	s = p.url.ReplaceAllStringFunc(s, redactURL)
	if strings.Contains(s, ":") {
		s = p.login.ReplaceAllString(s, "${1}"+masked)
		s = p.at.ReplaceAllString(s, "${1}"+masked+"$2")
		s = p.oracle.ReplaceAllString(s, "${1}"+masked+"$2")
	}
	return s
}

// redactURL masks the user part, the query and the fragment of a URL. A password may be written with slashes and @ in it.
func redactURL(u string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i] + "?" + masked
	}
	authority, _, _ := strings.Cut(rest, "/")
	user := strings.LastIndexByte(authority, '@')
	_, port, ok := strings.Cut(authority, ":")
	if ok && user < 0 && strings.Trim(port, "0123456789") != "" && port[0] != '[' && authority[0] != '[' {
		if user = strings.LastIndexByte(rest, '@'); user < 0 {
			return scheme + "://" + masked // that was no port, and the rest is cut off
		}
	}
	if user >= 0 {
		rest = masked + rest[user:]
	}
	return scheme + "://" + rest
}

// Clean is an event as it may be told: none of it longer than it may be, and without secrets. The given one stays as it is. It
// takes longer than all the rest, so it's done once, and where nobody waits for it.
func (e *Event) Clean() Event {
	if e.clean {
		return *e
	}
	out := redact(e.bounded())
	out.clean = true
	return out
}

// redact returns an event without secrets.
func redact(e Event) Event {
	if e.Resource == "net" {
		e.Target, e.Asked = redactTarget(e.Target), redactTarget(e.Asked)
		if redactText(e.Suggest) != e.Suggest {
			e.Suggest = "" // masked it would be the grant of something else
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
		case p.masked:
		case i > 0:
			p = p.Former()
		default:
			p.Argv, p.masked = RedactArgv(ShortArgv(p.Argv)), true
		}
		chain[i] = p
	}
	if e.Process != nil {
		e.Process = chain
	}
	return e
}

// redactTarget is redactText for what is one URL, or ends as one does.
func redactTarget(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i] + "?" + masked
	}
	return redactText(s)
}

// commandLine joins arguments so that it can be seen where each ends.
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
