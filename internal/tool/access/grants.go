package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// maxGrants is how many grants a denial names.
const maxGrants = 20

// Grants describes what is granted of a resource, for people: what is in the workspace first, at most 20 entries.
func (x *Context) Grants(of policy.Resource) []string {
	var list []string
	switch of {
	case policy.FS:
		list = x.fsGrants()
	case policy.Net:
		for _, n := range x.Access.Net {
			if n.Allow {
				list = append(list, n.String())
			}
		}
	case policy.Env:
		for _, e := range x.Access.Env {
			if e.Read {
				list = append(list, "read "+e.Name)
			}
		}
	case policy.Commands:
		for _, name := range slices.Sorted(maps.Keys(x.Access.Commands)) {
			list = append(list, "run "+name)
		}
	}
	if more := len(list) - maxGrants; more > 0 {
		list = append(list[:maxGrants-1], fmt.Sprintf("and %d more", more+1))
	}
	return list
}

// fsGrants are the grants on files: first what is in the workspace, then what the policy's own files name, then the built-in rules.
func (x *Context) fsGrants() []string {
	own := map[string]bool{}
	for _, r := range x.Policy.Rules {
		if r.FS != nil && !r.Builtin() {
			own[relative(x.Policy, r.FS.Path)] = true
		}
	}
	var lists [3][]string
	add := func(base string, c Caps, target string) {
		at := 2
		switch {
		case !strings.HasPrefix(base, "/"):
			at = 0
		case own[base]:
			at = 1
		}
		if caps := c.String(); caps != "" {
			lists[at] = append(lists[at], caps+" "+target)
		}
	}
	for _, f := range x.Access.FS {
		add(f.Path, f.Caps, f.Path)
	}
	for _, p := range x.Patterns.FS {
		add(p.Base, p.Caps, strings.TrimPrefix(strings.TrimSuffix(p.Base, "/")+"/**/"+strings.Join(p.Match, "/"), "./"))
	}
	return slices.Concat(lists[0], lists[1], lists[2])
}

// String names the capabilities: "read+write".
func (c Caps) String() string {
	var caps policy.Caps
	for k, has := range map[policy.Caps]bool{policy.Read: c.Read, policy.Create: c.Create, policy.Update: c.Update, policy.Delete: c.Delete, policy.Execute: c.Execute} {
		if has {
			caps |= k
		}
	}
	if caps == 0 {
		return ""
	}
	return caps.String()
}

// String is the rule as an address.
func (n Net) String() string {
	s := "connect to "
	if n.Scheme != "" {
		s += n.Scheme + "://"
	}
	if s += n.Host; n.Port != 0 {
		s += fmt.Sprintf(":%d", n.Port)
	}
	return s + n.PathPrefix
}
