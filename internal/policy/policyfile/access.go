package policyfile

import (
	"cmp"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Access is an [access] table: what the four resources grant. Every field that was left out is nil or unset, so that
// merging can detect.
type Access struct {
	Default      Default    `key:"default" doc:"What happens to a target that no rule matches: one word for all resources, or a table with a word for each."`
	Runtime      *bool      `key:"runtime" doc:"Put the system paths that a program needs to start in front of the fs rules (default true)."`
	Protect      *Protect   `key:"protect" doc:"Keep the files that trusted programs outside execute or obey from being written: auto where the backend can, true or don't start, false not at all."`
	Secrets      *Protect   `key:"secrets" doc:"Keep credential stores and private keys from being read: auto where the backend can, true or don't start, false not at all."`
	Namespaces   *bool      `key:"namespaces" doc:"Allow new user namespaces (default false)."`
	Syscalls     *Syscalls  `key:"syscalls" doc:"The profile of denied system calls: a word, or a table that also names exceptions."`
	Capabilities List[Text] `key:"capabilities" doc:"Linux capabilities that the session keeps, if it has them; normally none."`
	TLSIntercept *bool      `key:"tls_intercept" doc:"Let the egress proxy read https with a certificate made for the session, for path_prefix and methods."`
	Degraded     List[Text] `key:"allow_degraded" doc:"Ids of rules, such as fs.3, that a backend may enforce only in part or not at all."`

	FS       List[FS]   `key:"fs" doc:"Rules about files, one [[access.fs]] each."`
	Net      List[Net]  `key:"net" doc:"Rules about the network, one [[access.net]] each."`
	Env      List[Env]  `key:"env" doc:"Rules about environment variables, one [[access.env]] each."`
	Commands CommandSet `key:"commands" doc:"The programs that may be executed, one [access.commands.NAME] each."`

	Position policy.Position
}

// undeclare removes a table's settings for a resource.
func (a *Access) undeclare(r policy.Resource) {
	switch a.Default[r] = policy.Undeclared; r {
	case policy.FS:
		a.FS = List[FS]{}
	case policy.Net:
		a.Net = List[Net]{}
	case policy.Env:
		a.Env = List[Env]{}
	case policy.Commands:
		a.Commands = CommandSet{}
	}
}

func (a *Access) check(d *decoder, _ *tomltree.Node) {
	for _, c := range a.Capabilities.Items {
		if !knownCapability(c.S) {
			hint := cmp.Or(nearest.Hint(c.S, capabilities, ""), "write it as capabilities(7) does, for example CAP_NET_BIND_SERVICE")
			d.failAt(c.Position, hint, "unknown capability %s", tomltree.Quote(c.S))
		}
	}
}

// Text is a string with its position.
type Text struct {
	S        string
	Position policy.Position
}

func (t *Text) decode(d *decoder, n *tomltree.Node) {
	t.Position = d.position(n.Off)
	t.S, _ = d.text(n)
}

// FS is one [[access.fs]] table.
type FS struct {
	Path      string `key:"path" doc:"A literal path, relative to the workspace, absolute, or beginning with ~/; it covers itself and everything beneath." like:"\"src\""`
	Match     string `key:"match" doc:"A pattern [BASE/]**/LAST[/NAME…], where LAST is a name, PREFIX* or *SUFFIX." like:"\"**/.env\""`
	Read      *bool  `key:"read" doc:"Read files, list directories."`
	Write     *bool  `key:"write" doc:"The value of create, update and delete where they are left out."`
	Create    *bool  `key:"create" doc:"Make new files and directories."`
	Update    *bool  `key:"update" doc:"Change existing files."`
	Delete    *bool  `key:"delete" doc:"Remove files and directories."`
	Execute   *bool  `key:"execute" doc:"Execute files as programs."`
	Unprotect bool   `key:"unprotect" doc:"This rule may grant what protect would deny."`
	Secret    bool   `key:"secret" doc:"This rule may grant what secrets would deny."`
	Ensure    bool   `key:"ensure" doc:"Make this folder (mode 0700), beneath the home or the workspace, before the command starts, if it isn't there."`
	Literal   bool   `key:"literal" doc:"The path or match is literally as written, although it looks like a variable, a URL or a pattern."`
	Position  policy.Position
	Value     policy.LineCol
}

func (r *FS) check(d *decoder, n *tomltree.Node) {
	r.Value = d.lineCol(n, "path", "match")
	switch {
	case r.Path == "" && r.Match == "":
		d.fail(n.Off, `write path = "." for the workspace`, "neither path nor match %s", d.here())
	case r.Path != "" && r.Match != "":
		d.fail(n.Get("match").Off, "make two rules of it", "both path and match %s", d.here())
	case strings.HasPrefix(r.Path, "~") && r.Path != "~" && !strings.HasPrefix(r.Path, "~/"):
		d.fail(n.Get("path").Node.Off, "for a file of that name write ./"+r.Path, "path %s names another user's home", tomltree.Quote(r.Path))
	case r.Ensure && r.Match != "":
		d.fail(n.Get("ensure").Off, "name the folder by path", "a pattern names no folder to make %s", d.here())
	case !r.Literal && !isBuiltin(d.file):
		r.checkMisread(d)
	}
}

// checkMisread rejects a path that is probably not intended literally.
func (r *FS) checkMisread(d *decoder) {
	msg, hint := fspath.Misread(r.Path+r.Match, r.Path != "" && r.caps() == 0)
	if msg != "" {
		d.failAt(r.Position.At(r.Value), hint+"; for a file of that name add literal = true", "%s", msg)
	}
}

// caps expands write.
func (r *FS) caps() policy.Caps {
	var c policy.Caps
	for _, x := range []struct {
		cap   policy.Caps
		given *bool
	}{
		{policy.Write, r.Write},
		{policy.Read, r.Read},
		{policy.Create, r.Create},
		{policy.Update, r.Update},
		{policy.Delete, r.Delete},
		{policy.Execute, r.Execute},
	} {
		switch {
		case x.given == nil:
		case *x.given:
			c |= x.cap
		default:
			c &^= x.cap
		}
	}
	return c
}

func (r *FS) rule() policy.FSRule {
	return policy.FSRule{Path: r.Path, Match: r.Match, Caps: r.caps(), Unprotect: r.Unprotect, Secret: r.Secret, Ensure: r.Ensure, Position: r.Position, Value: r.Value}
}

// Net is one [[access.net]] table. Package policy interprets its host.
type Net struct {
	Host       string   `key:"host" required:"true" doc:"A host name, *.name, localhost, an IP address or a CIDR." like:"\"api.example.com\""`
	Scheme     string   `key:"scheme" doc:"The only scheme that the rule is for."`
	Port       int      `key:"port" range:"1 65535" doc:"The only port that the rule is for; without it, the default port of the target's scheme."`
	PathPrefix string   `key:"path_prefix" doc:"The only paths that the rule is for, by whole segments." like:"\"/v1\""`
	Methods    []string `key:"methods" doc:"The only HTTP methods that the rule is for." like:"[\"GET\"]"`
	Protocol   string   `key:"protocol" words:"tcp udp" doc:"tcp unless given; QUIC needs udp."`
	Listen     bool     `key:"listen" doc:"The session may bind the port and accept connections there. Without a port, and with host = \"localhost\": any port of loopback, and connect to its own servers there."`
	Allow      bool     `key:"allow" doc:"Whether the rule allows or denies."`
	Position   policy.Position
	Value      policy.LineCol
}

func (r *Net) check(d *decoder, n *tomltree.Node) {
	r.Value = d.lineCol(n, "host")
	if r.Scheme != "" && !isScheme(r.Scheme) {
		d.fail(n.Get("scheme").Node.Off, `write scheme = "https"`, "scheme %s isn't a scheme in lower case", tomltree.Quote(r.Scheme))
	}
	if r.PathPrefix != "" && r.PathPrefix[0] != '/' {
		d.fail(n.Get("path_prefix").Node.Off, "", "path_prefix %s doesn't begin with /", tomltree.Quote(r.PathPrefix))
	}
	if r.Listen && r.Port == 0 && (!strings.EqualFold(r.Host, "localhost") || r.Protocol == "udp") {
		hint := `add port = …, or write host = "localhost" for servers of the session's own on any port`
		if r.Protocol == "udp" {
			hint = "add port = …: over udp the session's own servers can't be distinguished from other ones"
		}
		d.fail(n.Get("listen").Off, hint, "listen without a port %s", d.here())
	}
	for i, m := range r.Methods {
		if !isMethod(m) {
			d.fail(n.Get("methods").Node.Items[i].Off, "methods are in upper case, for example GET", "%s isn't an HTTP method", tomltree.Quote(m))
		}
	}
}

// isScheme reports whether s is a scheme of RFC 3986 in lower case.
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return true
}

// isMethod reports whether s looks like a registered HTTP method: upper-case letters and hyphens.
func isMethod(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" && s[0] != '-'
}

func (r *Net) rule() policy.NetRule {
	return policy.NetRule{
		Host: r.Host, Scheme: r.Scheme, Port: r.Port, PathPrefix: r.PathPrefix, Methods: r.Methods,
		Protocol: r.Protocol, Listen: r.Listen, Allow: r.Allow, Position: r.Position, Value: r.Value,
	}
}

// Env is one [[access.env]] table.
type Env struct {
	Name     string `key:"name" required:"true" doc:"A variable's name, or the beginning of names with a * after it." like:"\"AWS_*\""`
	Read     bool   `key:"read" doc:"Whether the command gets the variable."`
	Position policy.Position
	Value    policy.LineCol
}

func (r *Env) check(d *decoder, n *tomltree.Node) {
	r.Value = d.lineCol(n, "name")
	if msg, hint := badEnvName(r.Name); msg != "" {
		d.fail(n.Get("name").Node.Off, hint, "name %s %s", tomltree.Quote(r.Name), msg)
	}
}

// badEnvName returns what is wrong with a name of env or envs.
func badEnvName(s string) (msg, hint string) {
	literal := strings.TrimSuffix(s, "*")
	switch {
	case strings.Contains(literal, "*"):
		return "has a * that isn't at its end", "only one * is allowed, as the last character"
	case strings.ContainsAny(literal, "= \t\r\n"):
		return "can't be the name of a variable", "a name contains neither = nor blanks"
	case literal != "" && strings.Contains("$%", literal[:1]), strings.ContainsAny(literal, "?["):
		return "can't be the name of a variable", "write the name alone, such as HOME; a * is allowed at its end"
	}
	return "", ""
}

func (r *Env) rule() policy.EnvRule {
	return policy.EnvRule{Name: r.Name, Read: r.Read, Position: r.Position, Value: r.Value}
}

// Argv is the words of a command line, or the beginning of one. Unlike other strings, a word may be empty.
type Argv []string

func (v *Argv) decode(d *decoder, n *tomltree.Node) {
	if n.Kind != tomltree.Array {
		d.wrong(n, "a list of words for each command line", "write [[\"status\", \"**\"]]")
		return
	}
	*v = make(Argv, len(n.Items))
	for i, item := range n.Items {
		if (*v)[i] = item.Text; item.Kind != tomltree.String {
			d.wrong(item, "made of strings", "")
		} else if strings.Contains(item.Text, "\x00") {
			d.fail(item.Off, "", "%s contains a NUL character", d.name())
		}
	}
}

// SelfTest is a whole command line with its position.
type SelfTest struct {
	Argv     Argv
	Position policy.Position
}

func (t *SelfTest) decode(d *decoder, n *tomltree.Node) {
	t.Position = d.position(n.Off)
	t.Argv.decode(d, n)
}

// Command is one [access.commands.NAME] table.
type Command struct {
	Args     List[Argv]     `key:"args" doc:"The allowed beginnings of the arguments; ** as the last element allows any rest." like:"[[\"status\", \"**\"]]"`
	Envs     List[Text]     `key:"envs" doc:"The variables that the program may see."`
	Enter    Text           `key:"enter" enforced:"no" doc:"tool:NAME: from the moment that the program is executed, that tool's policy applies." like:"\"tool:Bash\""`
	Match    List[SelfTest] `key:"match" doc:"Self-tests: command lines that must be allowed."`
	NotMatch List[SelfTest] `key:"not_match" doc:"Self-tests: command lines that must be denied."`
	Position policy.Position
}

func (c *Command) check(d *decoder, n *tomltree.Node) {
	for _, args := range c.Args.Items {
		for i, a := range args {
			if a == "**" && i < len(args)-1 {
				d.fail(n.Get("args").Off, `only the last element may be "**"`, `"**" in the middle of args %s`, d.here())
			}
		}
	}
	for _, e := range c.Envs.Items {
		if msg, hint := badEnvName(e.S); msg != "" {
			d.failAt(e.Position, hint, "name %s %s", tomltree.Quote(e.S), msg)
		}
	}
	for _, tests := range []struct {
		key  string
		list []SelfTest
	}{{"match", c.Match.Items}, {"not_match", c.NotMatch.Items}} {
		for _, t := range tests.list {
			if len(t.Argv) == 0 {
				d.failAt(t.Position, "write the whole command line, the program's name first", "an empty self-test %s", d.here())
			}
		}
	}
}
