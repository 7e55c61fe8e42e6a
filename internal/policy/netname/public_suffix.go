package netname

import (
	_ "embed"
	"strings"
)

// publicSuffixes is the Public Suffix List, a text that isn't parsed: package publicsuffix of
// golang.org/x/net, from which it comes, would link an HTTP client and TLS into every program that might ask. It has one rule a line, as https://publicsuffix.org/list explains them: a domain, "*." and a domain for every name
// directly beneath it, or "!" and a name that is an exception to such a rule.
//
//go:generate go test -count=1 -run ^TestPublicSuffixes$ . -update
//go:embed public_suffix.txt
var publicSuffixes string

// IsPublicSuffix reports whether anyone can register names beneath a domain, such as "com", "co.uk" and "github.io". The domain is in ASCII and lower case without a dot at
// its end.
func IsPublicSuffix(domain string) bool {
	_, parent, more := strings.Cut(domain, ".")
	switch {
	case hasRule(domain):
		return true
	case more:
		return hasRule("*."+parent) && !hasRule("!"+domain)
	}
	return domain != "" && strings.Contains(publicSuffixes, "."+domain+"\n") // a top-level domain that is only shared out beneath others
}

// hasRule reports whether the list has a rule.
func hasRule(rule string) bool { return strings.Contains(publicSuffixes, "\n"+rule+"\n") }
