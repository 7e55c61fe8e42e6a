package tomlformat

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// AppendArgs returns a policy file with one more list of arguments at the end of args in [access.commands.NAME]; everything else stays as it
// is. ok is false where the file has no such list.
func AppendArgs(src []byte, name string, args []string) (out []byte, ok bool) {
	root, err := tomltree.Parse(src)
	if err != nil {
		return nil, false
	}
	at, n := 0, root
	for _, key := range []string{"access", "commands", name, "args"} {
		e := n.Get(key)
		if e == nil {
			return nil, false
		}
		at, n = e.Off, e.Node
	}
	if n.Kind != tomltree.Array || n.Origin != tomltree.Inline {
		return nil, false
	}
	end, last := listEnd(src, at)
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = tomltext.Quote(a)
	}
	text := "[" + strings.Join(quoted, ", ") + "]"
	switch last {
	case "]":
		text = ", " + text
	case ",":
		text = " " + text
	}
	return slices.Insert(slices.Clone(src), end, []byte(text)...), true
}

// listEnd finds the list that is the value of the key at an offset. It returns the end of its last element, or of the comma after that,
// and that token; "[" for an empty list.
func listEnd(src []byte, at int) (end int, last string) {
	for depth, value := 0, false; at < len(src); {
		t, n := tomltree.NextToken(src[at:])
		text := string(src[at : at+n])
		at += n
		if !value {
			value = text == "="
			continue
		}
		switch {
		case text == "[" || text == "{":
			depth++
		case text == "]" || text == "}":
			if depth--; depth == 0 {
				return end, last
			}
		}
		if t == tomltree.Punctuation || t == tomltree.Quoted || t == tomltree.Bare {
			end, last = at, text
		}
	}
	return end, last
}
