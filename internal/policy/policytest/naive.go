package policytest

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
)

// This is a second evaluator, written from the language's description alone, as slow and plain as it can be. It shares
// only the rule types with the real one.

type NaiveLayer struct {
	Rules, Protect, Secrets []policy.FSRule
	DefaultAction           policy.DefaultAction
}

// NaiveWords splits an absolute path into its components.
func NaiveWords(path string) []string {
	var out []string
	for _, w := range strings.Split(path, "/") {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

func NaiveAbs(path string) string {
	switch {
	case path == "." || path == "":
		return Workspace
	case strings.HasPrefix(path, "/"):
		return path
	}
	return Workspace + "/" + path
}

// NaiveDepth returns the greatest number of components at which a rule matches a path, -1 for not at all.
func NaiveDepth(r policy.FSRule, path string) int {
	target := NaiveWords(path)
	for n := len(target); n >= 0; n-- {
		if NaiveMatches(r, target[:n]) {
			return n
		}
	}
	return -1
}

// NaiveMatches reports whether a rule names exactly this entry.
func NaiveMatches(r policy.FSRule, entry []string) bool {
	if r.Match == "" {
		return strings.Join(NaiveWords(NaiveAbs(r.Path)), "/") == strings.Join(entry, "/")
	}
	at := strings.Index(r.Match, "**/")
	base := NaiveWords(NaiveAbs(strings.TrimSuffix(r.Match[:at], "/")))
	if strings.HasPrefix(r.Match, "/**/") {
		base = nil
	}
	tail := strings.Split(r.Match[at+3:], "/")
	if len(entry) < len(base)+len(tail) {
		return false
	}
	for i, b := range base {
		if entry[i] != b {
			return false
		}
	}
	end := entry[len(entry)-len(tail):]
	for i, want := range tail {
		switch {
		case i == 0 && strings.HasSuffix(want, "*"):
			if !strings.HasPrefix(end[0], want[:len(want)-1]) {
				return false
			}
		case i == 0 && strings.HasPrefix(want, "*"):
			if !strings.HasSuffix(end[0], want[1:]) {
				return false
			}
		case end[i] != want:
			return false
		}
	}
	return true
}

// NaiveWinner returns the index of the deciding rule, -1 for none.
func NaiveWinner(rules []policy.FSRule, path string) int {
	best, bestDepth, bestLiteral := -1, -1, false
	for i, r := range rules {
		d, literal := NaiveDepth(r, path), r.Match == ""
		if d < 0 || d < bestDepth || d == bestDepth && bestLiteral && !literal {
			continue
		}
		best, bestDepth, bestLiteral = i, d, literal
	}
	return best
}

// NaiveRemoveOverridden returns the list without the rules of built-in files at and beneath the path of a rule without capabilities.
func NaiveRemoveOverridden(rules []policy.FSRule) (out []policy.FSRule) {
	for _, r := range rules {
		overridden := slices.ContainsFunc(rules, func(d policy.FSRule) bool {
			return d.Position.File != "preset:x" && d.Caps == 0 && r.Match == "" && NaiveDepth(d, NaiveAbs(r.Path)) >= 0
		})
		if r.Position.File != "preset:x" || !overridden {
			out = append(out, r)
		}
	}
	return out
}

// NaiveComplete returns the effective list: a rule of a built-in file for a path outside the workspace also grants the capabilities
// that its path has without it, and is left out when it grants no more.
func NaiveComplete(rules []policy.FSRule, defaultAction policy.DefaultAction) (out []policy.FSRule) {
	for i, r := range rules {
		if w := NaiveWithout(rules, i, defaultAction); NaiveAdds(r) {
			if r.Caps&^w.Caps == 0 && (w.Unprotect || !r.Unprotect) && (w.Secret || !r.Secret) {
				continue
			}
			r = NaiveSum(r, w)
		}
		out = append(out, r)
	}
	return out
}

// NaiveAdds reports whether a rule only adds.
func NaiveAdds(r policy.FSRule) bool {
	return r.Position.File == "preset:x" && strings.HasPrefix(r.Path, "/")
}

// NaiveSum returns the capabilities of both rules.
func NaiveSum(r, q policy.FSRule) policy.FSRule {
	r.Caps, r.Unprotect, r.Secret = r.Caps|q.Caps, r.Unprotect || q.Unprotect, r.Secret || q.Secret
	return r
}

// NaiveWithout returns the capabilities that the path of a rule has without it and without later rules for the same path.
func NaiveWithout(rules []policy.FSRule, at int, defaultAction policy.DefaultAction) policy.FSRule {
	var others []policy.FSRule
	for i, r := range rules {
		if i != at && (i < at || r.Match != "" || NaiveAbs(r.Path) != NaiveAbs(rules[at].Path)) {
			others = append(others, r)
		}
	}
	w := NaiveWinner(others, NaiveAbs(rules[at].Path))
	switch {
	case w >= 0 && NaiveAdds(others[w]):
		return NaiveSum(others[w], NaiveWithout(others, w, defaultAction))
	case w >= 0:
		return others[w]
	case defaultAction == policy.Allow:
		return policy.FSRule{Caps: policy.AllCaps}
	}
	return policy.FSRule{}
}

// NaiveAllows returns the decision of all layers.
func NaiveAllows(layers []NaiveLayer, path string, want policy.Caps) bool {
	for _, l := range layers {
		unprotect, reveal := false, false
		if len(l.Rules) > 0 || l.DefaultAction != policy.Undeclared {
			w := NaiveWinner(l.Rules, path)
			switch {
			case w >= 0 && want&^l.Rules[w].Caps != 0:
				return false
			case w < 0 && l.DefaultAction != policy.Allow:
				return false
			case w >= 0:
				unprotect, reveal = l.Rules[w].Unprotect, l.Rules[w].Secret
			}
		}
		if !unprotect && want&policy.Write != 0 && NaiveWinner(l.Protect, path) >= 0 {
			return false
		}
		if w := NaiveWinner(l.Secrets, path); !reveal && want&(policy.Read|policy.Execute) != 0 && w >= 0 && l.Secrets[w].Caps == 0 {
			return false
		}
	}
	return true
}

// Few names, so that random rules match random paths; some are prefixes and suffixes of others.
var SomeNames = rapid.SampledFrom([]string{"a", "ab", "abc", "b", "bc", "c", ".env", "x.pem", "y.pem", ".git", "hooks", "*"})

// GenPath returns a random path.
func GenPath(t *rapid.T, label string) string {
	return "/" + strings.Join(rapid.SliceOfN(SomeNames, 1, 6).Draw(t, label), "/")
}

// GenRule returns a random fs rule.
func GenRule(t *rapid.T, label string) policy.FSRule {
	r := policy.FSRule{
		Caps:      policy.Caps(rapid.IntRange(0, int(policy.AllCaps)).Draw(t, label+" caps")),
		Unprotect: rapid.Bool().Draw(t, label+" unprotect"), Secret: rapid.Bool().Draw(t, label+" secret"),
	}
	where := rapid.SliceOfN(SomeNames, 0, 3).Draw(t, label+" path")
	path := strings.Join(where, "/")
	if rapid.Bool().Draw(t, label+" literal") {
		r.Path = "./" + path
		if rapid.Bool().Draw(t, label+" absolute") {
			r.Path = "/" + path
		} else if path == "" {
			r.Path = "."
		}
		r.Path = strings.TrimPrefix(r.Path, "./")
		return r
	}
	r.Match = GenMatch(t, label, strings.ReplaceAll(path, "*", "a"))
	return r
}

// GenMatch returns a random pattern.
func GenMatch(t *rapid.T, label, base string) string {
	plain := rapid.SampledFrom([]string{"a", "ab", "abc", "b", "c", ".env", "x.pem", ".git", "hooks"})
	last := plain.Draw(t, label+" last")
	switch rapid.IntRange(0, 2).Draw(t, label+" form") {
	case 1:
		last = last[:rapid.IntRange(1, len(last)).Draw(t, label+" cut")] + "*"
	case 2:
		last = "*" + last[rapid.IntRange(0, len(last)-1).Draw(t, label+" cut"):]
	}
	s := "**/" + strings.Join(append([]string{last}, rapid.SliceOfN(plain, 0, 2).Draw(t, label+" names")...), "/")
	switch {
	case base != "" && rapid.Bool().Draw(t, label+" absolute base"):
		return "/" + base + "/" + s
	case base != "":
		return base + "/" + s
	case rapid.Bool().Draw(t, label+" whole machine"):
		return "/" + s
	}
	return s
}

// GenLayers returns random layers, for the compiler and for the naive evaluator.
func GenLayers(t *rapid.T) (layers []policy.SourceLayer, naive []NaiveLayer) {
	n := rapid.IntRange(1, 3).Draw(t, "layers")
	for i := range n {
		l := policy.SourceLayer{Authority: policy.Authority(int(policy.Host) + i), Protect: policy.ProtectOn, Secrets: policy.ProtectOn}
		for j := range rapid.IntRange(0, 8).Draw(t, "rules") {
			r := GenRule(t, fmt.Sprintf("rule %d.%d", i, j))
			if r.Match == "" && rapid.Bool().Draw(t, "built in") {
				r.Position.File = "preset:x"
			}
			l.FS = append(l.FS, r)
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "protected") {
			l.Protected = append(l.Protected, policy.FSRule{Match: GenMatch(t, fmt.Sprintf("protect %d.%d", i, j), "")})
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "secrets") {
			except := rapid.IntRange(0, 1).Draw(t, "exception")
			l.SecretFiles = append(l.SecretFiles, policy.FSRule{Match: GenMatch(t, fmt.Sprintf("secrets %d.%d", i, j), ""), Caps: policy.Read * policy.Caps(except)})
		}
		l.Defaults[policy.FS] = rapid.SampledFrom([]policy.DefaultAction{policy.Undeclared, policy.Deny, policy.Allow}).Draw(t, "default")
		layers = append(layers, l)
		defaultAction := l.Defaults[policy.FS]
		if defaultAction == policy.Undeclared && len(l.FS) > 0 {
			defaultAction = policy.Deny
		}
		naive = append(naive, NaiveLayer{NaiveComplete(NaiveRemoveOverridden(l.FS), defaultAction), l.Protected, l.SecretFiles, defaultAction})
	}
	return layers, naive
}

// GenNet returns a random net rule.
func GenNet(t *rapid.T) policy.NetRule {
	r := policy.NetRule{Host: SomeHosts.Draw(t, "host"), Port: SomePorts.Draw(t, "port"), Allow: rapid.Bool().Draw(t, "allow")}
	switch rapid.SampledFrom([]string{"any", "tcp", "tcp", "tcp", "udp", "listen", "path"}).Draw(t, "kind") {
	case "any":
	case "tcp":
		r.Protocol = "tcp"
		r.Scheme = SomeSchemes.Draw(t, "scheme")
	case "udp":
		if r.Protocol = "udp"; r.Allow || strings.HasSuffix(r.Host, "a.com") {
			r.Port = max(r.Port, 1)
		}
	case "listen":
		r.Listen, r.Port = true, max(r.Port, 1)
		r.Host = rapid.SampledFrom([]string{"", "localhost", "10.0.0.0/8", "::/0", "127.0.0.1"}).Draw(t, "where")
	case "path":
		r.Scheme, r.PathPrefix = "http", "/x"
	}
	return r
}

// Few addresses, ports and ranges, so that random rules match random targets.
var (
	SomeAddrs = rapid.SampledFrom([]string{
		"10.0.0.1", "10.0.1.1", "10.1.0.1", "11.0.0.1", "127.0.0.1", "127.0.0.2", "0.0.0.0", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
		"::1", "::", "fd00::1", "fd00:0:1::1", "2001:db8::1", "64:ff9b::a00:1", "2002:a00:1::1",
	})
	SomeHosts = rapid.SampledFrom([]string{
		"10.0.0.0/8", "10.0.0.0/16", "10.0.0.1", "0.0.0.0/0", "128.0.0.0/1", "127.0.0.0/8", "127.0.0.1", "localhost", "::1", "::/0",
		"fd00::/8", "fd00::/48", "fd00::1", "64:ff9b::/96", "a.com", "*.a.com",
	})
	SomePorts   = rapid.SampledFrom([]int{0, 22, 80, 443, 5432})
	SomeSchemes = rapid.SampledFrom([]string{"", "", "http", "https", "wss", "ssh", "git"})
)
