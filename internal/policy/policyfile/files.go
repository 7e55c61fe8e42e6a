package policyfile

// Files is what loading needs of the file system. Errors are those of package os.
type Files interface {
	// Read returns the bytes of a regular file that has some, or its first limit bytes when it's larger.
	Read(path string, limit int) ([]byte, error)
	// ReadTrusted is Read for a file that only root may have written, itself and every folder above it.
	ReadTrusted(path string, limit int) ([]byte, error)
	// List returns the names in a folder that only root may change, sorted.
	List(dir string) ([]string, error)
	// Real is where a path leads, which exists.
	Real(path string) (string, error)
	// Exists tells whether something is at a path.
	Exists(path string) bool
}
