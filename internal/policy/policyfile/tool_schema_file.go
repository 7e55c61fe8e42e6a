package policyfile

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
	"github.com/toolguard/toolguard/internal/tool/schema"
)

// maxSchema is the most bytes of a schema's file.
const maxSchema = 256 << 10

// readSchemas reads the schemas of a file's local tools that are files of their own. Those of the host's policies must be as well
// protected as the policies.
func (l *loader) readSchemas(f *File) {
	for _, name := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
		if s := f.Policy.Tools[name].Schema; s != nil && s.File != "" {
			l.readSchema(f, s)
		}
	}
}

func (l *loader) readSchema(f *File, s *ArgumentSchema) {
	get := l.files.Read
	if f.Authority == policy.Host {
		get = l.files.ReadTrusted
	}
	text, err := get(absolute(s.File, filepath.Dir(f.Path)), maxSchema+1)
	switch {
	case err != nil:
		l.fail(s.Position, "its name is relative to the policy's folder", "can't read schema %s: %s", tomltree.Quote(s.File), reason(err))
		return
	case len(text) > maxSchema:
		l.fail(s.Position, "", "schema %s has more than %d KiB", tomltree.Quote(s.File), maxSchema>>10)
		return
	}
	parsed, err := schema.Parse(text)
	if err != nil {
		l.fail(s.Position, "", "schema %s: %v", tomltree.Quote(s.File), err)
		return
	}
	s.JSON, s.Names = text, parsed.Properties()
}
