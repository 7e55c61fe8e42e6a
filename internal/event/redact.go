package event

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// masked stands for what isn't shown.
const masked = "***"

// maxArgs and maxCommandLine bound what of a command line is told.
const (
	maxArgs        = 64
	maxCommandLine = 4096
)

// patterns are compiled at the first use: most runs have no event with arguments.
var patterns = sync.OnceValue(func() (p struct{ name, token, userinfo *regexp.Regexp }) {
	p.name = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|auth(orization)?|credentials?|cookie|session[-_]?id)$`)
	p.token = regexp.MustCompile(`(?i)\b(gh[pousr]_[0-9A-Za-z]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|(AKIA|ASIA)[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|npm_\w{16,}|AIza[\w-]{20,})|\b(bearer|basic)\s+[\w.~+/=-]{6,}`)
	p.userinfo = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s@]*@`)
	return p
})

// RedactArgv masks what looks like a secret in a command line: the value of --password=x and of --password x,
// TOKEN=x, tokens with a known prefix, the user part and the query of a URL. It returns a new slice.
func RedactArgv(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	out := make([]string, len(argv))
	hide := false
	for i, a := range argv {
		out[i] = redactArg(a)
		if hide && !strings.HasPrefix(a, "-") {
			out[i] = masked
		}
		hide = i > 0 && strings.HasPrefix(a, "-") && !strings.Contains(a, "=") && patterns().name.MatchString(a)
	}
	return out
}

func redactArg(a string) string {
	if name, _, ok := strings.Cut(a, "="); ok && patterns().name.MatchString(name) {
		return name + "=" + masked
	}
	if name, value, ok := strings.Cut(a, ":"); ok && !strings.HasPrefix(value, "//") && patterns().name.MatchString(name) {
		return name + ": " + masked // a header
	}
	a = patterns().token.ReplaceAllString(a, masked)
	return redactURL(a)
}

// redactURL masks the user part and the query of a URL.
func redactURL(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	s = patterns().userinfo.ReplaceAllString(s, "${1}"+masked+"@")
	if u, err := url.Parse(s); err == nil && u.Scheme != "" && u.RawQuery != "" {
		before, _, _ := strings.Cut(s, "?")
		s = before + "?" + masked
	}
	return s
}

// redact returns an event without secrets. The given one stays as it is.
func redact(e Event, argv func([]string) []string) Event {
	if e.Resource == "net" {
		e.Target, e.Asked = redactURL(e.Target), redactURL(e.Asked)
	}
	chain := make([]Process, len(e.Process))
	for i, p := range e.Process {
		p.Argv = argv(p.Argv)
		chain[i] = p
	}
	if e.Process != nil {
		e.Process = chain
	}
	return e
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
