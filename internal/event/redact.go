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

// These bound what of a command line is told, which can be as long as whoever chose it likes: of the process that it's about, in arguments
// and bytes, and of those that it comes from, which are many.
const (
	maxArgs        = 64
	maxCommandLine = 4096
	maxFormerArgs  = 16
	maxFormerLine  = 512
)

// secretName is how what is worth hiding is called, at the end of a name.
const secretName = `(pass(word|wd|phrase)?|[-_]pwd|secret|token|(api|access|account|private|secret|signing|encryption|auth|subscription|master)[-_]?key|` +
	`signature|auth(orization)?|credentials?|cookie|session[-_]?id)`

// quoted is a value in a script, a header or a body: in quotes, of which the last may be missing, or a word.
const quoted = `('[^']*'?|"(\\.|[^"\\])*"?|`

// patterns are compiled at the first use: most runs have no event with arguments.
var patterns = sync.OnceValue(func() (p struct{ name, account, token, header, flag, assigned, login, at, program, url *regexp.Regexp }) {
	p.name = regexp.MustCompile(`(?i)` + secretName + `$`)
	p.account = regexp.MustCompile(`^(-[uU]|--(proxy-)?user)$`)
	p.token = regexp.MustCompile(`(?i)\b(gh[pousr]_[0-9A-Za-z]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|(AKIA|ASIA)[0-9A-Z]{16}|` +
		`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|npm_\w{16,}|pypi-[\w-]{16,}|AIza[\w-]{20,}|hv[sb]\.[\w-]{16,}|ya29\.[\w-]{10,}|dckr_pat_[\w-]{16,})|` +
		`\b(bearer|basic)\s+[\w.~+/=-]{6,}|(?s:-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\z))`)
	// Within an argument that is more than one word: a script, a header, a body.
	p.header = regexp.MustCompile(`(?i)\b(authorization|cookie)\s*:[^'"\n]*`)
	p.flag = regexp.MustCompile(`(?i)((^|\s)--?[\w-]*` + secretName + `)[\s\\]+` + quoted + `[^\s'"]+)`)
	p.assigned = regexp.MustCompile(`(?i)(` + secretName + `["']?\s*[=:]\s*)` + quoted + `(\\.|[^\s'";&|,}\\])+)`)
	// The password of an account, and before the @ of a host that no URL is of.
	p.login = regexp.MustCompile(`((?:^|\s)(?:-[uU]|--(?:proxy-)?user)[\s=]*['"]?[^\s:='"/]+:)[^\s'"]+`)
	p.at = regexp.MustCompile(`((?:^|[\s=])[\w.%+-]+:)[^\s'"/@:]+(@[\w.-]+(?::\d+)?(?:[\s/'"]|$))`)
	// Programs whose flag for a password says it by a letter.
	p.program = regexp.MustCompile(`((?:^|[\s/;&|])(?:(?:sshpass|mysql\w*|mariadb[\w-]*|(?:docker|podman)\s+login)\s(?:[^|;&\n]*?\s)?-p|redis-cli\s(?:[^|;&\n]*?\s)?-a)\s*)` + quoted + `[^\s'"]+)`)
	p.url = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://\S*`)
	return p
})

// lettered are the flags of programs, by their names, that a password comes after or is attached to. In mysql's it must be attached.
var lettered = map[string]string{
	"sshpass": "-p", "mysql": "-p", "mysqldump": "-p", "mysqladmin": "-p", "mariadb": "-p", "mariadb-dump": "-p", "mariadb-admin": "-p",
	"docker login": "-p", "podman login": "-p", "redis-cli": "-a",
}

// letter is the flag by which a command takes a password, or "".
func letter(argv []string) string {
	program := path.Base(argv[0])
	if f := lettered[program]; f != "" || len(argv) == 1 {
		return f
	}
	return lettered[program+" "+argv[1]]
}

// RedactArgv masks what looks like a secret in a command line: the value of --password=x and of --password x, the password of
// --user me:x, TOKEN=x, headers, the same within scripts and bodies, tokens with a known beginning, private keys, the user part and the
// query of a URL. It returns a new slice.
func RedactArgv(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	out := make([]string, len(argv))
	hide, letter := false, letter(argv)
	for i, a := range argv {
		out[i] = redactArg(a)
		if name, _, ok := strings.Cut(a, ":"); ok && i > 0 && patterns().account.MatchString(argv[i-1]) {
			out[i] = name + ":" + masked
		}
		switch {
		case a == "--" && hide:
			continue // the value comes still
		case hide:
			out[i] = masked
		case i > 0 && (argv[i-1] == "-b" || argv[i-1] == "--cookie") && strings.Contains(a, "="):
			out[i] = masked
		case letter != "" && len(a) > len(letter) && strings.HasPrefix(a, letter):
			out[i] = letter + masked
		}
		hide = i > 0 && strings.HasPrefix(a, "-") && !strings.Contains(a, "=") && patterns().name.MatchString(a) || letter != "" && a == letter
	}
	return out
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

// Former is a process that others come from, as it's told with each of them: with the beginning of its command line, without secrets.
func (p Process) Former() Process {
	p.Argv, p.masked = RedactArgv(shortArgv(p.Argv, maxFormerArgs, maxFormerLine)), true
	return p
}

func redactArg(a string) string {
	if name, _, ok := strings.Cut(a, "="); ok && patterns().name.MatchString(name) && !strings.ContainsAny(name, " \t\n:") {
		return name + "=" + masked
	}
	if name, value, ok := strings.Cut(a, ":"); ok && !strings.HasPrefix(value, "//") && patterns().name.MatchString(name) {
		return name + ": " + masked // a header
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
	s = p.url.ReplaceAllStringFunc(s, redactURL)
	if strings.Contains(s, ":") {
		s = p.login.ReplaceAllString(s, "${1}"+masked)
		s = p.at.ReplaceAllString(s, "${1}"+masked+"$2")
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
	if _, port, ok := strings.Cut(authority, ":"); ok && user < 0 && strings.Trim(port, "0123456789") != "" && port[0] != '[' && authority[0] != '[' {
		if user = strings.LastIndexByte(rest, '@'); user < 0 {
			return scheme + "://" + masked // that was no port, and the rest is cut off
		}
	}
	if user >= 0 {
		rest = masked + rest[user:]
	}
	return scheme + "://" + rest
}

// Clean is an event as it may be told: none of it longer than it may be, and without secrets. The given one stays as it is. It takes longer
// than all the rest, so it's done once, and where nobody waits for it.
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
		e.Target, e.Asked, e.Suggest = redactTarget(e.Target), redactTarget(e.Asked), redactText(e.Suggest)
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
