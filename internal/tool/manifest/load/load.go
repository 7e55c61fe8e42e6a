// Package load makes manifests of the policies that options select, and reads manifests from files.
package load

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/manifest"
)

// Generate generates the manifest of a policy. It reads the policy once for each tool and caller that it distinguishes, always with the same text.
func Generate(o policyload.Options) (*manifest.Manifest, error) {
	o.Snapshot = hostfs.NewSnapshot() // so that every tool and caller has the same text
	if _, err := o.Written(); err != nil {
		return nil, err
	}
	dir, err := o.Folder()
	if err != nil {
		return nil, err
	}
	layers := o.Document.Tools().Layers
	in := manifest.Input{
		Dir: dir, Layer: layers[len(layers)-1], Tables: policyload.AccessTables(o.Document),
		Load: func(tool string, c manifest.Caller) (*policy.Source, error) {
			q := o
			q.Tool, q.Agent = tool, c.Agent
			q.Caller.Profile, q.Caller.Provider, q.Caller.Group, q.Caller.Depth = c.Profile, c.Provider, c.Group, uint16(c.Depth)
			return q.Written()
		},
	}
	for _, e := range policyload.Enters(o.Document) {
		in.Enters = append(in.Enters, manifest.Transition{Table: e.Table, Enter: manifest.Enter{Command: e.Command, Tool: e.Tool}})
	}
	return manifest.Generate(in)
}

// Read reads a manifest. A wrong digest is an error.
func Read(name string) (*manifest.Manifest, error) {
	text, err := hostfs.Machine{}.Read(name, manifest.MaxSize+1)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}
