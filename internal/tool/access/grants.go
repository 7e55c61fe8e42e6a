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

func (x *Context) fsGrants() (list []string) {
	for _, within := range []bool{true, false} {
		for _, f := range x.Access.FS {
			if caps := f.Caps.String(); caps != "" && within == !strings.HasPrefix(f.Path, "/") {
				list = append(list, caps+" "+f.Path)
			}
		}
		for _, p := range x.Patterns.FS {
			if caps := p.Caps.String(); caps != "" && within == !strings.HasPrefix(p.Base, "/") {
				list = append(list, fmt.Sprintf("%s %s", caps, strings.TrimPrefix(strings.TrimSuffix(p.Base, "/")+"/**/"+strings.Join(p.Match, "/"), "./")))
			}
		}
	}
	return list
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
