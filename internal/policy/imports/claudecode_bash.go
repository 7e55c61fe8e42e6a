package imports

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// program is what the rules of Bash say about one program.
type program struct {
	allowed, denied, asked [][]string // the arguments; "**" as the last one is any rest
	from                   []string
}

// command splits the specifier of a Bash rule: a program, and its arguments. ok is false if it's more than literal words with a
// wildcard after the last one.
func (r claudeRule) command() (name string, args []string, ok bool) {
	spec := strings.TrimSpace(r.spec)
	rest, any := strings.CutSuffix(spec, ":*")
	if !any {
		rest, any = strings.CutSuffix(spec, " *")
	}
	if strings.ContainsAny(rest, "*?[]{}()<>|&;$`'\"\\~#!\n\r\t\x00") {
		return "", nil, false
	}
	words := strings.Fields(rest)
	if len(words) == 0 || !programName(words[0]) || strings.Contains(words[0], "=") {
		return "", nil, false
	}
	if args = words[1:]; any {
		args = append(args, "**")
	}
	return words[0], args, true
}

func (c *claude) program(name, from string) *program {
	p := c.commands[name]
	if p == nil {
		p = &program{}
		c.commands[name] = p
	}
	if !slices.Contains(p.from, from) {
		p.from = append(p.from, from)
	}
	return p
}

func (c *claude) denyCommand(r claudeRule) {
	name, args, ok := r.command()
	if !ok {
		c.leave(r.at, "%s isn't one program and its first arguments: Bash is denied in its place", tomltext.Quote(r.text))
		c.deny.deny = append(c.deny.deny, "Bash")
		return
	}
	p := c.program(name, r.at)
	p.denied = append(p.denied, args)
}

func (c *claude) askCommand(r claudeRule) {
	name, args, ok := r.command()
	if !ok {
		c.leave(r.at, "%s isn't one program and its first arguments: a person is asked about each command", tomltext.Quote(r.text))
		c.ask["Bash"], c.from["Bash"], c.bashAlone = "always", r.at, true
		return
	}
	p := c.program(name, r.at)
	p.asked = append(p.asked, args)
}

func (c *claude) allowCommand(r claudeRule) {
	if c.security == "full" {
		return // each command runs
	}
	name, args, ok := r.command()
	if !ok {
		c.leave(r.at, "%s isn't one program and its first arguments; left out, so a person is asked", tomltext.Quote(r.text))
		return
	}
	p := c.program(name, r.at)
	if meets(args, p.denied) {
		c.leave(r.at, "%s: a deny rule is about some of it, and a program has only lists of what is allowed; left out, which allows less", tomltext.Quote(r.text))
		return
	}
	if meets(args, p.asked) {
		c.leave(r.at, "%s: an ask rule is about some of it; left out, which allows less", tomltext.Quote(r.text))
		return
	}
	p.allowed = append(p.allowed, args)
}

// allowBash lets each command run, unless other rules are about commands.
func (c *claude) allowBash(r claudeRule) {
	if !c.openBash() {
		c.leave(r.at, "%s: deny and ask rules are about commands; left out, so a person is asked about what no rule names", tomltext.Quote(r.text))
	}
}

// openBash lets each command run, and reports false if rules that deny or ask are about commands.
func (c *claude) openBash() bool {
	if c.bashAlone {
		return false
	}
	for _, p := range c.commands {
		if len(p.denied)+len(p.asked) > 0 {
			return false
		}
	}
	c.security, c.commands = "full", map[string]*program{}
	return true
}

// meets reports whether arguments could be those of one of the others, too.
func meets(args []string, others [][]string) bool {
	return slices.ContainsFunc(others, func(o []string) bool {
		for n := 0; ; n++ {
			switch {
			case n < len(args) && args[n] == "**" || n < len(o) && o[n] == "**":
				return true
			case n == len(args) || n == len(o):
				return len(args) == len(o)
			case !strings.HasPrefix(args[n], o[n]) && !strings.HasPrefix(o[n], args[n]):
				return false
			}
		}
	})
}

// bash writes the rules of commands. A program that a rule is about runs with the listed arguments alone; any other one is asked about.
func (c *claude) bash() {
	header := c.tool("Bash") + ".access"
	names := sortedKeys(c.commands)
	c.set(header, "default.commands", `"allow"`, "a person is asked about a command that no rule allows")
	for _, name := range names {
		p := c.commands[name]
		if len(p.allowed) == 0 && len(p.denied) == 0 {
			continue // asked about, as any other
		}
		slices.SortFunc(p.allowed, slices.Compare)
		list := slices.CompactFunc(p.allowed, slices.Equal)
		own := header + ".commands." + tomltext.Key(name)
		if slices.ContainsFunc(list, func(a []string) bool { return len(a) == 1 && a[0] == "**" }) {
			c.comment(c.table(own), p.from...)
			continue
		}
		c.set(own, "args", tomltext.Lists(list), p.from...)
		if len(list) == 0 && !meetsAll(p.denied) {
			c.leave(p.from[0], "%s: a deny rule is about some of it, and a program has only lists of what is allowed: it's denied with any arguments", tomltext.Quote(name))
		}
	}
}

func meetsAll(lists [][]string) bool {
	return slices.ContainsFunc(lists, func(a []string) bool { return len(a) == 1 && a[0] == "**" })
}
