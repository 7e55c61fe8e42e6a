package hostfs

import "maps"

// Snapshot is this machine with the files of a policy as they were when they were read first, for a program that compiles a policy several
// times and needs the same one each time.
type Snapshot struct {
	Machine
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

// NewSnapshot returns a snapshot that has read nothing yet.
func NewSnapshot() *Snapshot { return &Snapshot{files: map[snapshotKey]snapshotFile{}} }

// Read implements policyfile.Files.
func (s *Snapshot) Read(path string, limit int) ([]byte, error) {
	return s.read(snapshotKey{path, false}, limit, s.Machine.Read)
}

// ReadTrusted implements policyfile.Files.
func (s *Snapshot) ReadTrusted(path string, limit int) ([]byte, error) {
	return s.read(snapshotKey{path, true}, limit, s.Machine.ReadTrusted)
}

func (s *Snapshot) read(key snapshotKey, limit int, read func(string, int) ([]byte, error)) ([]byte, error) {
	f, ok := s.files[key]
	if !ok {
		f.text, f.err = read(key.path, limit)
		s.files[key] = f
	}
	return f.text[:min(len(f.text), limit)], f.err
}

// With returns a copy in which one file has another text, whether it exists or not.
func (s *Snapshot) With(path string, text []byte) *Snapshot {
	out := &Snapshot{files: maps.Clone(s.files)}
	out.files[snapshotKey{path, false}] = snapshotFile{text: text}
	return out
}
