package policyload

import (
	"path/filepath"

	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// Edited is this machine with another text in one file.
type Edited struct {
	hostfs.Machine
	Name string // absolute
	Text []byte
	Used bool // it's of the policy: it was read
}

// Read implements policyfile.Files.
func (e *Edited) Read(path string, limit int) ([]byte, error) {
	if path == e.Name {
		e.Used = true
		return e.Text[:min(len(e.Text), limit)], nil
	}
	return e.Machine.Read(path, limit)
}

// Try compiles the text of a policy, which is in no file, for the current folder: without a tool, and for each of the tools. name is for errors.
func Try(name string, text []byte, tools []string) error {
	for _, tool := range append([]string{""}, tools...) {
		o := Options{Files: []string{name}, Tool: tool, Reads: true, NoDetect: true, Workspace: "."}
		dir, err := o.Folder()
		if err != nil {
			return err
		}
		o.Edited = &Edited{Name: filepath.Join(dir, name), Text: text}
		if _, err := o.Load(""); err != nil {
			return err
		}
	}
	return nil
}
