package firejail

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/toolguard/toolguard/internal/mounts"
)

// special are the bytes that firejail rejects in a path (invalid_filename), expands as a pattern, or reads as a comment or a variable.
const special = "\\&!?\"'<>%^{};,*[]#$`"

// reject returns why firejail can't make a mount, or "".
func reject(m mounts.Mount) string {
	if why := misread(m.Path); why != "" {
		return why
	}
	if m.Mode == mounts.ReadWrite {
		return foreign(m.Path)
	}
	return ""
}

// misread returns why a path isn't itself in a profile, or "".
func misread(path string) string {
	bad := func(what string) string { return fmt.Sprintf("firejail can't be given %q: it has %s", path, what) }
	for _, c := range []byte(path) {
		if c < ' ' || c == 0x7f {
			return bad("a control character")
		}
	}
	if i := strings.IndexAny(path, special); i >= 0 {
		return bad("the character " + path[i:i+1])
	}
	if strings.HasSuffix(path, " ") || strings.Contains(path, "  ") {
		return bad("blanks at its end or in a row")
	}
	if len(path) > maxPath {
		return bad("more than 4,000 bytes")
	}
	return ""
}

// maxPath is well below the longest line of a profile (MAX_READ).
const maxPath = 4000

// foreign returns why firejail doesn't make a path writable, or "": it does that only for files of the user's own, unless the user is root.
func foreign(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	if mode := info.Mode(); !mode.IsDir() && mode&fs.ModeType != 0 {
		return path + " isn't a file or folder, and firejail makes nothing else writable"
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if uid := os.Getuid(); !ok || uid != 0 && int(st.Uid) != uid {
		return fmt.Sprintf("firejail makes only writable what belongs to the user, and %s belongs to user %d", path, st.Uid)
	}
	return ""
}
