package main

import (
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// snapshot is this machine with the files of a policy as they were when they were read first, for a command that compiles the policy for
// several tools and callers.
type snapshot struct {
	hostfs.Machine
	files map[snapshotKey]snapshotFile
}

type snapshotKey struct {
	path    string
	trusted bool
}

type snapshotFile struct {
	text []byte
	err  error
}

func newSnapshot() *snapshot { return &snapshot{files: map[snapshotKey]snapshotFile{}} }

// Read implements policyfile.Files.
func (s *snapshot) Read(path string, limit int) ([]byte, error) {
	return s.read(snapshotKey{path, false}, limit, s.Machine.Read)
}

// ReadTrusted implements policyfile.Files.
func (s *snapshot) ReadTrusted(path string, limit int) ([]byte, error) {
	return s.read(snapshotKey{path, true}, limit, s.Machine.ReadTrusted)
}

func (s *snapshot) read(key snapshotKey, limit int, read func(string, int) ([]byte, error)) ([]byte, error) {
	f, ok := s.files[key]
	if !ok {
		f.text, f.err = read(key.path, limit)
		s.files[key] = f
	}
	if f.err == nil && limit < len(f.text) {
		return f.text[:limit], nil
	}
	return f.text, f.err
}
