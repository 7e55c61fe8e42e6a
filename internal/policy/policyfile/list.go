package policyfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Strategy is how a list is merged with the same list of earlier files.
type Strategy string

// The strategies.
const (
	Append  Strategy = "append"  // after the earlier ones
	Prepend Strategy = "prepend" // before the earlier ones
	Replace Strategy = "replace" // instead of the earlier ones
	Dedup   Strategy = "dedup"   // after the earlier ones, without those that are there already
)

var strategies = []string{string(Append), string(Prepend), string(Replace), string(Dedup)}

// List is a list in either of its forms: [ … ], or { strategy = "…", value = [ … ] }.
type List[T any] struct {
	Strategy Strategy // Append for the plain form
	Items    []T
	Given    bool // whether the key was in the file
}

func (l *List[T]) decode(d *decoder, n *tomltree.Node) {
	l.Given = true
	value, s := d.merged(n)
	l.Strategy = s
	if value != nil {
		d.value(value, reflect.ValueOf(&l.Items).Elem(), nil)
	}
}

// merged splits the form with a strategy; any other value it returns unchanged. It returns nil after an error.
func (d *decoder) merged(n *tomltree.Node) (*tomltree.Node, Strategy) {
	if n.Kind != tomltree.Table || n.Get("strategy") == nil && n.Get("value") == nil {
		return n, Append
	}
	var form struct {
		Strategy string `key:"strategy" words:"append prepend replace dedup" required:"true"`
		Value    raw    `key:"value" required:"true"`
	}
	d.structure(n, reflect.ValueOf(&form).Elem())
	return form.Value.node, Strategy(form.Strategy)
}

// raw is a value that is decoded later.
type raw struct{ node *tomltree.Node }

func (r *raw) decode(_ *decoder, n *tomltree.Node) { r.node = n }

// join merges a later list into an earlier one.
func join[T any](earlier []T, later List[T], same func(a, b T) bool) []T {
	switch later.Strategy {
	case Replace:
		return slices.Clip(later.Items)
	case Prepend:
		return slices.Concat(later.Items, earlier)
	case Dedup:
		out := slices.Clip(earlier)
		for _, x := range later.Items {
			if !slices.ContainsFunc(out, func(y T) bool { return same(x, y) }) {
				out = append(out, x)
			}
		}
		return out
	}
	return slices.Concat(earlier, later.Items)
}

// Default is the word or table of `default`.
type Default [policy.NumResources]policy.DefaultAction

func (v *Default) decode(d *decoder, n *tomltree.Node) {
	words := []string{"deny", "allow"}
	if n.Kind == tomltree.String {
		if d.word(n.Off, n.Text, words) {
			for i := range v {
				v[i] = defaultAction(n.Text)
			}
		}
		return
	}
	if n.Kind != tomltree.Table {
		d.wrong(n, `"deny", "allow" or a table`, "")
		return
	}
	var t struct {
		FS       string `key:"fs" words:"deny allow"`
		Net      string `key:"net" words:"deny allow"`
		Env      string `key:"env" words:"deny allow"`
		Commands string `key:"commands" words:"deny allow"`
	}
	d.structure(n, reflect.ValueOf(&t).Elem())
	*v = Default{policy.FS: defaultAction(t.FS), policy.Net: defaultAction(t.Net), policy.Env: defaultAction(t.Env), policy.Commands: defaultAction(t.Commands)}
}

func defaultAction(word string) policy.DefaultAction {
	switch word {
	case "allow":
		return policy.Allow
	case "deny":
		return policy.Deny
	}
	return policy.Undeclared
}

// Protect is the value of `protect`, and of `secrets`.
type Protect policy.ProtectMode

func (v *Protect) decode(d *decoder, n *tomltree.Node) {
	switch {
	case n.Kind == tomltree.Bool && n.Bool:
		*v = Protect(policy.ProtectOn)
	case n.Kind == tomltree.Bool:
		*v = Protect(policy.ProtectOff)
	case n.Kind == tomltree.String && n.Text == "auto":
		*v = Protect(policy.ProtectAuto)
	default:
		hint := ""
		if n.Kind == tomltree.String {
			if hint = nearest.Hint(n.Text, []string{"auto"}, ""); n.Text == "true" || n.Text == "false" {
				hint = "leave the quotes out"
			}
		}
		d.wrong(n, `"auto", true or false`, hint)
	}
}

// Syscalls is the value of `syscalls`, a word or a table.
type Syscalls struct {
	Profile  string     `key:"profile" words:"default strict" doc:"The profile that the lists change."`
	Allow    List[Text] `key:"allow" doc:"System calls to remove from the profile's denied ones."`
	Deny     List[Text] `key:"deny" doc:"System calls to deny as well."`
	Position policy.Position
}

func (v *Syscalls) decode(d *decoder, n *tomltree.Node) {
	v.Position = d.position(n.Off)
	switch n.Kind {
	case tomltree.String:
		if d.word(n.Off, n.Text, []string{"default", "strict"}) {
			v.Profile = n.Text
		}
	case tomltree.Table:
		type plain Syscalls // without this method
		d.structure(n, reflect.ValueOf((*plain)(v)).Elem())
	default:
		d.wrong(n, `"default", "strict" or a table`, "")
	}
}

// CommandSet is [access.commands]: tables by program, in file order.
type CommandSet struct {
	Strategy Strategy
	Items    []NamedCommand
	Given    bool
}

// NamedCommand is a Command with the program it's about.
type NamedCommand struct {
	Name string
	Command
}

func (c *CommandSet) decode(d *decoder, n *tomltree.Node) {
	c.Given, c.Strategy = true, Append
	// A program may be called strategy; its value is a table then, not a word.
	if n.Kind == tomltree.Table {
		if e := n.Get("strategy"); e != nil && e.Node.Kind == tomltree.String {
			n, c.Strategy = d.merged(n)
		}
	}
	switch {
	case n == nil:
		return
	case n.Kind != tomltree.Table:
		d.wrong(n, "a table of tables", "write [access.commands.NAME] for each program")
		return
	}
	c.Items = make([]NamedCommand, len(n.Keys))
	for i, e := range n.Keys {
		c.Items[i].Name = e.Name
		d.push(e.Name)
		d.commandName(&e)
		d.structure(e.Node, reflect.ValueOf(&c.Items[i].Command).Elem())
		d.pop()
	}
}

// commandName checks that a program's name can be found: a bare name or an absolute path.
func (d *decoder) commandName(e *tomltree.Entry) {
	if strings.IndexByte(e.Name, 0) >= 0 {
		d.fail(e.Off, "", "a NUL character in a program's name")
		return
	}
	if msg, hint := badProgram(e.Name); msg != "" {
		d.fail(e.Off, hint, "program %s %s", tomltree.Quote(e.Name), msg)
	}
}

// badProgram returns what is wrong with a program's name.
func badProgram(name string) (msg, hint string) {
	first, rest, blank := strings.Cut(strings.TrimSpace(name), " ")
	bare := !strings.Contains(name, "/")
	switch {
	case name == "":
		return "has no name", ""
	case name != strings.TrimSpace(name):
		return "begins or ends with a blank", "write " + tomltree.Quote(strings.TrimSpace(name))
	case strings.HasPrefix(name, "~"):
		return "can't be found by ~", "write its name alone, or its absolute path"
	case name != "[" && strings.ContainsAny(name, "*?["):
		return "matches nothing: a name is no pattern", `write a table for each program, or default = { commands = "allow" } for any`
	case bare && strings.ContainsAny(name, "$%"), !bare && strings.ContainsAny(name, "$"):
		return "has a variable in it, and variables aren't expanded", "write its name alone, or its absolute path"
	case blank && bare:
		return "matches nothing: arguments aren't part of a name", fmt.Sprintf("write [access.commands.%s] with args = [[%s, \"**\"]]", first, wordList(rest))
	case !bare && name[0] != '/':
		return "is a relative path", "write its name alone, or its absolute path"
	}
	return "", ""
}

// wordList returns words as the elements of a list.
func wordList(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = tomltree.Quote(w)
	}
	return strings.Join(words, ", ")
}
