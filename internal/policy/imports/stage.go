package imports

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// stage is a stage of visibility that is written.
type stage struct {
	filters     bool // there's a list of allowed tools
	allow, deny []string
	from        []string // the keys of the source
	profile     string
	also        []string
}

// write writes the keys of the stage, if it has any.
func (s *stage) write(i *importer, header string) {
	from := s.from
	set := func(key, value string) {
		i.set(header, key, value, from...)
		from = nil // one comment for all
	}
	if s.profile != "" {
		set("profile", tomltext.Quote(s.profile))
	}
	if s.filters {
		set("allow", tomltext.Strings(unique(s.allow)))
	} else if s.profile != "" && len(s.also) > 0 {
		set("also_allow", tomltext.Strings(unique(s.also)))
	}
	if len(s.deny) > 0 {
		set("deny", tomltext.Strings(unique(s.deny)))
	}
}

// restrict makes a list of allowed tools smaller: only what both lists allow remains.
func (s *stage) restrict(allow []string) {
	if !s.filters {
		s.filters, s.allow = true, allow
		return
	}
	var both []string
	if len(s.allow)*len(allow) > maxValues {
		allow = nil // nobody writes such lists
	}
	for _, x := range s.allow {
		for _, y := range allow {
			switch {
			case toolset.Normal(x) == toolset.Normal(y) || covers(y, x):
				both = append(both, x)
			case covers(x, y):
				both = append(both, y)
			}
		}
	}
	s.allow = both
}

// covers reports whether a pattern surely matches all that another one does.
func covers(wide, narrow string) bool {
	if strings.HasPrefix(wide, toolset.GroupPrefix) || strings.HasPrefix(narrow, toolset.GroupPrefix) {
		return wide == "*"
	}
	return wide == "*" || !strings.Contains(narrow, "*") && toolset.Glob(toolset.Normal(wide), toolset.Normal(narrow))
}

// unique drops what is there twice. The list isn't nil.
func unique(list []string) []string {
	out, seen := []string{}, map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
