package imports

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// The tools of Claude Code's that ask unless a rule allows them, and those of them that change files.
var (
	claudeEdits  = []string{"Edit", "MultiEdit", "NotebookEdit", "Write"}
	claudeAsking = append([]string{"WebFetch", "WebSearch", "mcp__*"}, claudeEdits...)
)

// claudeReads are those that a rule about Read is about.
var claudeReads = []string{"Glob", "Grep", "LS", "NotebookRead", "Read"}

// claudeRule is a rule of permissions: a tool, and maybe a specifier.
type claudeRule struct {
	text, at   string
	tool, spec string
	hasSpec    bool
}

// claudeHost is a host of a rule for WebFetch.
type claudeHost struct{ name, at string }

// claude collects what the lists of permissions say.
type claude struct {
	*importer
	deny      stage
	ask       map[string]string // by the pattern of a tool: off, on-miss, always
	from      map[string]string // the rule that ask comes from
	security  string
	commands  map[string]*program
	bashAlone bool // each Bash command asks, or is denied, whatever a rule allows

	readDenied, editDenied []claudePath
	grants                 []claudePath
	hosts, deniedHosts     []claudeHost
	hostDenied, hostsOpen  bool
}

// claudeCode reads permissions of settings.json. Deny rules come before ask rules, and those before allow rules.
func (i *importer) claudeCode(o *object) {
	p := o.object("permissions")
	o.unrelated("$schema", "model", "theme", "statusLine", "includeCoAuthoredBy", "cleanupPeriodDays", "outputStyle", "spinnerTipsEnabled",
		"alwaysThinkingEnabled", "language", "verbose", "attribution")
	mode := p.text("defaultMode", "default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
	if p.text("disableBypassPermissionsMode", "disable") != "" && mode == "bypassPermissions" {
		i.leave(p.at("defaultMode"), "%s disables it: the default mode applies", p.at("disableBypassPermissionsMode"))
		mode = "default"
	}
	c := &claude{importer: i, ask: map[string]string{}, from: map[string]string{}, commands: map[string]*program{}, security: "allowlist"}
	c.deny.from = []string{p.at("deny")}
	for _, tool := range claudeAsking {
		c.ask[tool] = "always"
	}
	for _, key := range []string{"deny", "ask", "allow"} {
		list, _ := p.texts(key)
		for _, text := range list {
			r := claudeRule{text: text, at: p.at(key)}
			r.tool, r.spec, r.hasSpec = strings.Cut(strings.TrimSpace(text), "(")
			if r.spec, r.hasSpec = strings.CutSuffix(r.spec, ")"); r.spec == "*" {
				r.hasSpec = false
			}
			if _, open, _ := strings.Cut(text, "("); r.tool == "" || open != "" && !r.hasSpec && r.spec != "*" {
				i.fail(r.at, "%s is no rule", tomltext.Quote(text))
				return
			}
			map[string]func(claudeRule){"deny": c.denyRule, "ask": c.askRule, "allow": c.allowRule}[key](r)
		}
	}
	dirs, _ := p.texts("additionalDirectories")
	for _, d := range dirs {
		c.grant(p.at("additionalDirectories"), d)
	}
	c.mode(mode, p.at("defaultMode"))
	c.write(mode, p.at("defaultMode"))
}

// pattern returns the pattern of a rule's tool. ok is false if no tool can have the name.
func (r claudeRule) pattern() (p string, ok bool) {
	p = r.tool
	if server, is := strings.CutPrefix(p, "mcp__"); is && !strings.Contains(server, "__") && !strings.HasSuffix(p, "*") {
		p += "__*"
	}
	return p, validPattern(p)
}

// patterns returns those of all tools that a rule without a specifier denies, or asks about.
func (r claudeRule) patterns(p string) []string {
	switch r.tool {
	case "Edit":
		return claudeEdits
	case "Read":
		return claudeReads
	}
	return []string{p}
}

// unread returns why a rule allows nothing in Claude Code, "" if it does. Names are compared in any case here.
func (r claudeRule) unread(p string) string {
	if server, is := strings.CutPrefix(r.tool, "mcp__"); strings.Contains(r.tool, "*") && (!is || strings.Contains(before(server, "__"), "*")) {
		return "a pattern that allows has to begin with mcp__SERVER__"
	}
	for _, known := range slices.Concat(claudeAsking, claudeReads, []string{"Bash"}) {
		if known != p && toolset.Normal(known) == toolset.Normal(p) {
			return "the tool's name is " + known
		}
	}
	return ""
}

func before(s, sep string) string {
	head, _, _ := strings.Cut(s, sep)
	return head
}

func (c *claude) denyRule(r claudeRule) {
	p, ok := r.pattern()
	switch {
	case !ok:
		c.leave(r.at, "no tool can have the name of %s, so nothing is denied", tomltext.Quote(r.text))
	case !r.hasSpec:
		c.deny.deny = append(c.deny.deny, r.patterns(p)...)
	case r.tool == "Bash":
		c.denyCommand(r)
	case r.tool == "Read":
		c.readDenied = append(c.readDenied, c.deniedPath(r))
	case slices.Contains(claudeEdits, r.tool):
		c.editDenied = append(c.editDenied, c.deniedPath(r))
	case r.tool == "WebFetch":
		c.hostDenied = true
		if host, ok := strings.CutPrefix(r.spec, "domain:"); ok && validHost(host) {
			c.deniedHosts = append(c.deniedHosts, claudeHost{host, r.at})
			return
		}
		c.leave(r.at, "%s names no host: WebFetch is denied in its place", tomltext.Quote(r.text))
		c.deny.deny = append(c.deny.deny, p)
	default:
		c.leave(r.at, "%s has no equivalent: the tool is denied in its place", tomltext.Quote(r.text))
		c.deny.deny = append(c.deny.deny, p)
	}
}

func (c *claude) askRule(r claudeRule) {
	p, ok := r.pattern()
	switch {
	case !ok:
		c.leave(r.at, "no tool can have the name of %s; left out", tomltext.Quote(r.text))
		return
	case r.tool == "Bash" && r.hasSpec:
		c.askCommand(r)
		return
	case r.hasSpec:
		c.leave(r.at, "%s: there is no rule about parts of a tool's calls, so a person is asked about each call of the tool", tomltext.Quote(r.text))
	}
	for _, p := range r.patterns(p) {
		c.ask[p], c.from[p] = "always", r.at
	}
	if r.tool == "Bash" {
		c.bashAlone = true
	}
}

func (c *claude) allowRule(r claudeRule) {
	p, ok := r.pattern()
	switch {
	case !ok:
		c.leave(r.at, "no tool can have the name of %s; left out", tomltext.Quote(r.text))
	case r.unread(p) != "":
		c.leave(r.at, "%s: %s; left out", tomltext.Quote(r.text), r.unread(p))
	case r.tool == "Bash" && r.hasSpec:
		c.allowCommand(r)
	case r.tool == "Bash":
		c.allowBash(r)
	case r.tool == "Read" && r.hasSpec:
		if g, exact := r.path(); exact {
			c.grant(r.at, g.spec)
		} else {
			c.leave(r.at, "%s isn't one folder or file; left out, so it isn't granted", tomltext.Quote(r.text))
		}
	case r.tool == "WebFetch" && r.hasSpec:
		c.allowHost(r)
	case r.hasSpec:
		c.leave(r.at, "%s: there is no rule about parts of a tool's calls; left out, so a person is asked", tomltext.Quote(r.text))
	default:
		c.allowTool(p, r)
	}
}

// allowTool lets calls run without a question, unless an ask rule demands one.
func (c *claude) allowTool(p string, r claudeRule) {
	for asked := range c.from {
		if c.ask[asked] == "always" && (covers(p, asked) && p != asked || asked == p || overlaps(p, asked)) {
			if asked == p || covers(asked, p) {
				return // asked about in any case
			}
			if strings.Contains(asked, "*") {
				c.leave(r.at, "%s: an ask rule is about some of its tools; left out, so a person is asked", tomltext.Quote(r.text))
				return
			}
		}
	}
	c.ask[p], c.from[p] = "off", r.at
	if p == "WebFetch" {
		c.hostsOpen = true
	}
}

// overlaps reports whether both patterns could match one name. It's true in doubt.
func overlaps(a, b string) bool {
	x, _, wildA := strings.Cut(toolset.Normal(a), "*")
	y, _, wildB := strings.Cut(toolset.Normal(b), "*")
	switch {
	case wildA && wildB:
		return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
	case wildA || wildB:
		return covers(a, b) || covers(b, a)
	}
	return x == y
}

func (c *claude) allowHost(r claudeRule) {
	host, ok := strings.CutPrefix(r.spec, "domain:")
	switch {
	case !ok || !validHost(host):
		c.leave(r.at, "%s names no host; left out, so it's denied", tomltext.Quote(r.text))
	case c.ask["WebFetch"] == "always" && c.from["WebFetch"] != "":
		c.leave(r.at, "%s: an ask rule is about the tool; a person is asked", tomltext.Quote(r.text))
	default:
		c.hosts = append(c.hosts, claudeHost{host, r.at})
	}
}

// mode applies the default mode.
func (c *claude) mode(mode, at string) {
	switch mode {
	case "acceptEdits":
		for _, tool := range claudeEdits {
			if c.from[tool] == "" {
				c.ask[tool], c.from[tool] = "off", at
			}
		}
	case "plan":
		c.deny.deny = append(c.deny.deny, claudeEdits...)
		c.deny.from = append(c.deny.from, at)
	case "bypassPermissions":
		for _, tool := range claudeAsking {
			if c.from[tool] == "" {
				c.ask[tool], c.from[tool] = "off", at
			}
		}
		if !c.openBash() {
			c.leave(at, "deny and ask rules are about commands: a person is asked about what no rule names")
		}
		if c.from["WebFetch"] == at {
			c.hostsOpen = !c.hostDenied
		}
	case "auto":
		c.leave(at, "no model decides about calls: a person is asked")
	}
}
