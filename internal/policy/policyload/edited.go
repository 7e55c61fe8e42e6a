package policyload

import "github.com/toolguard/toolguard/internal/policy/hostfs"

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
