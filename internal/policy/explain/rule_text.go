package explain

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

func fsKeys(r *policy.FSRule) tomltext.Keys {
	var k tomltext.Keys
	k.AddString("path", r.Path)
	k.AddString("match", r.Match)
	for _, c := range []policy.Caps{policy.Read, policy.Create, policy.Update, policy.Delete, policy.Execute} {
		switch {
		case r.Caps&policy.Write == policy.Write && c == policy.Create:
			k.AddFlag("write", true)
		case r.Caps&policy.Write == policy.Write && c&policy.Write != 0:
		default:
			k.AddFlag(c.String(), r.Caps&c != 0)
		}
	}
	k.AddFlag("unprotect", r.Unprotect)
	k.AddFlag("secret", r.Secret)
	if msg, _ := fspath.Misread(r.Path+r.Match, r.Path != "" && r.Caps == 0); msg != "" {
		k.AddFlag("literal", true)
	}
	return k
}

func netKeys(r *policy.NetRule) tomltext.Keys {
	var k tomltext.Keys
	k.AddString("host", r.Host)
	k.AddString("scheme", r.Scheme)
	if r.Port != 0 {
		k.Add("port", fmt.Sprint(r.Port))
	}
	k.AddString("path_prefix", r.PathPrefix)
	if r.Methods != nil {
		k.Add("methods", tomltext.Strings(r.Methods))
	}
	k.AddString("protocol", r.Protocol)
	k.AddFlag("listen", r.Listen)
	k.Add("allow", fmt.Sprint(r.Allow))
	return k
}

func envKeys(r *policy.EnvRule) tomltext.Keys {
	var k tomltext.Keys
	k.Add("name", tomltext.Quote(r.Name))
	k.Add("read", fmt.Sprint(r.Read))
	return k
}

func commandKeys(r *policy.CommandRule) tomltext.Keys {
	var k tomltext.Keys
	if r.HasArgs {
		k.Add("args", tomltext.Lists(r.Args))
	}
	if r.HasEnvs {
		k.Add("envs", tomltext.Strings(r.Envs))
	}
	return k
}

// RuleText returns a rule as a person would write it, on one line of TOML.
func RuleText(r *policy.Rule) string {
	switch {
	case r.FS != nil:
		return fsKeys(fsSource(r.FS)).Inline()
	case r.Net != nil:
		return netKeys(&r.Net.NetRule).Inline()
	case r.Env != nil:
		return envKeys(r.Env).Inline()
	case r.Command != nil:
		return commandText(&r.Command.CommandRule)
	}
	return ""
}

// fsSource returns the rule as it was written.
func fsSource(f *policy.CompiledFS) *policy.FSRule {
	r := policy.FSRule{Caps: f.Caps, Unprotect: f.Unprotect, Secret: f.Secret}
	if f.Last != "" {
		r.Match = f.Written
	} else {
		r.Path = f.Written
	}
	return &r
}

// commandHeader returns the header of a command's table.
func commandHeader(name string) string {
	return "access.commands." + tomltext.Key(name)
}

func commandText(r *policy.CommandRule) string {
	if k := commandKeys(r); len(k) > 0 {
		return commandHeader(r.Name) + " = " + k.Inline()
	}
	return commandHeader(r.Name) + " = {}"
}
