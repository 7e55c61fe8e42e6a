package policyfile

// Files is the part of the file system that loading needs. Errors are those of package os.
type Files interface {
	// Read returns the bytes of a regular file that has some, or its first limit bytes when it's larger.
	Read(path string, limit int) ([]byte, error)
	// ReadTrusted is Read for a file that only root may have written, itself and every folder above it.
	ReadTrusted(path string, limit int) ([]byte, error)
	// List returns the names in a folder that only root may change, sorted.
	List(dir string) ([]string, error)
	// Real returns the canonical path of an existing file.
	Real(path string) (string, error)
	// Exists reports whether a path exists.
	Exists(path string) bool
}
