// Package patch is a stub.
package patch

// Action is what a patch does to a file.
type Action uint8

// The actions.
const (
	Modify Action = iota
	Create
	Delete
	Move
)

// File is one file that a patch touches.
type File struct {
	Path, To string
	Action   Action
}

// Looks reports whether a text begins like a patch.
func Looks(text string) bool { return false }

// Files are the files that a patch touches.
func Files(text string) ([]File, error) { return nil, nil }
