// Package suffix knows the domains beneath which anybody can register names: those of the Public Suffix List, such as
// "com", "co.uk" and "github.io". A grant for all names beneath one of them is a grant for everybody.
//
// The list is a text that nothing reads until it's asked for. Package publicsuffix of golang.org/x/net, from which it
// comes, would bring an HTTP client and TLS into every program that might ask.
package suffix

import (
	_ "embed"
	"strings"
)

// list has one rule a line, as https://publicsuffix.org/list explains them: a domain, "*." and a domain for every name
// directly beneath it, or "!" and a name that such a rule isn't for.
//
//go:generate go test -count=1 -run ^TestList$ . -update
//go:embed list.txt
var list string

// Public says whether anybody can register names beneath a domain, which is in ASCII and lower case without a dot at
// its end.
func Public(domain string) bool {
	_, parent, more := strings.Cut(domain, ".")
	switch {
	case has(domain):
		return true
	case more:
		return has("*."+parent) && !has("!"+domain)
	}
	return domain != "" && strings.Contains(list, "."+domain+"\n") // a top-level domain that is only shared out beneath others
}

// has says whether the list has a rule.
func has(rule string) bool { return strings.Contains(list, "\n"+rule+"\n") }
