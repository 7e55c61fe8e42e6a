package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// Quote is s as a TOML string.
func Quote(s string) string { return tomlString(s) }

// tomlString is s as a basic TOML string, in which everything can be printed.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff && !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func tomlStrings(l []string) string {
	q := make([]string, len(l))
	for i, s := range l {
		q[i] = tomlString(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

func tomlArgs(l [][]string) string {
	q := make([]string, len(l))
	for i, s := range l {
		q[i] = tomlStrings(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// Keys is the content of a table, one "key = value" each.
type Keys []string

func (k *Keys) add(key, value string) { *k = append(*k, key+" = "+value) }

func (k *Keys) str(key, value string) {
	if value != "" {
		k.add(key, tomlString(value))
	}
}

func (k *Keys) flag(key string, on bool) {
	if on {
		k.add(key, "true")
	}
}

// inline is the table on one line.
func (k Keys) inline() string { return "{ " + strings.Join(k, ", ") + " }" }

// Table is the table as a file has it, under its header.
func (k Keys) Table(header string) string {
	return strings.Join(append([]string{header}, k...), "\n") + "\n"
}

func FSKeys(r *FSRule) Keys {
	var k Keys
	k.str("path", r.Path)
	k.str("match", r.Match)
	for _, n := range capNames {
		switch {
		case r.Caps&Write == Write && n.c == Create:
			k.flag("write", true)
		case r.Caps&Write == Write && n.c&Write != 0:
		default:
			k.flag(n.name, r.Caps&n.c != 0)
		}
	}
	k.flag("unprotect", r.Unprotect)
	k.flag("secret", r.Secret)
	if msg, _ := Misread(r.Path+r.Match, r.Path != "" && r.Caps == 0); msg != "" {
		k.flag("literal", true)
	}
	return k
}

func NetKeys(r *NetRule) Keys {
	var k Keys
	k.str("host", r.Host)
	k.str("scheme", r.Scheme)
	if r.Port != 0 {
		k.add("port", fmt.Sprint(r.Port))
	}
	k.str("path_prefix", r.PathPrefix)
	if r.Methods != nil {
		k.add("methods", tomlStrings(r.Methods))
	}
	k.str("protocol", r.Protocol)
	k.flag("listen", r.Listen)
	k.add("allow", fmt.Sprint(r.Allow))
	return k
}

func EnvKeys(r *EnvRule) Keys {
	var k Keys
	k.add("name", tomlString(r.Name))
	k.add("read", fmt.Sprint(r.Read))
	return k
}

func CommandKeys(r *CommandRule) Keys {
	var k Keys
	if r.HasArgs {
		k.add("args", tomlArgs(r.Args))
	}
	if r.HasEnvs {
		k.add("envs", tomlStrings(r.Envs))
	}
	return k
}

// Text is the rule as a person would write it on one line of TOML.
func (r *Rule) Text() string {
	switch {
	case r.FS != nil:
		return FSKeys(r.FS.source()).inline()
	case r.Net != nil:
		return NetKeys(&r.Net.NetRule).inline()
	case r.Env != nil:
		return EnvKeys(r.Env).inline()
	case r.Command != nil:
		return commandText(&r.Command.CommandRule)
	}
	return ""
}

// source is the rule as it was written.
func (f *CompiledFS) source() *FSRule {
	r := FSRule{Caps: f.Caps, Unprotect: f.Unprotect, Secret: f.Secret}
	if f.Last != "" {
		r.Match = f.Written
	} else {
		r.Path = f.Written
	}
	return &r
}

// CommandHeader is the header of a command's table; a name that isn't a bare key is quoted.
func CommandHeader(name string) string {
	if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		name = tomlString(name)
	}
	return "access.commands." + name
}

func commandText(r *CommandRule) string {
	if k := CommandKeys(r); len(k) > 0 {
		return CommandHeader(r.Name) + " = " + k.inline()
	}
	return CommandHeader(r.Name) + " = {}"
}
