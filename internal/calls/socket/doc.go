// Package socket makes and finds the sockets on which the process that began a session answers its calls.
//
// Outside the session it is SESSION.sock in a folder of the user's, whose owners and modes are checked up to the root. In the session, where
// unix sockets may be denied, it is a descriptor: a message of one byte on it carries one end of a pair of sockets, which is a new connection.
package socket

import (
	"path/filepath"

	"github.com/toolguard/toolguard/internal/userfiles"
)

// Suffix is how the names of sockets end.
const Suffix = ".sock"

// Descriptor is how the address of an inherited descriptor begins.
const Descriptor = "fd:"

// Folders returns the folders that sockets may be in, the preferred one first. Of a variable that isn't an absolute path it takes no notice, as
// the XDG Base Directory Specification says.
func Folders(home string, getenv func(string) string) (list []string) {
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "toolguard"))
	}
	if state := userfiles.Of(home, getenv).State; filepath.IsAbs(state) {
		list = append(list, filepath.Join(state, "run"))
	}
	return list
}
