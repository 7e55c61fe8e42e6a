package policyfile

import (
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// maxLink is more than the size of a file that only names a folder.
const maxLink = 8 << 10

// repository returns the git repository that the workspace's .git leads to, outside of it: of a linked worktree (git worktree add), or of a
// submodule. A command may have written that .git, so it's used only where the repository names the workspace as its own, too: the
// next session is granted nothing that this one couldn't write.
func (l *loader) repository(workspace string) (r policy.Repository) {
	real, err := l.files.Real(workspace)
	if err != nil {
		return r
	}
	dir := l.names(filepath.Join(real, ".git"), "gitdir: ", real)
	if contains(real, dir) || contains(dir, real) { // "" contains everything
		return r
	}
	r = policy.Repository{Dir: dir, Common: dir}
	back := l.names(filepath.Join(dir, "config"), "worktree = ", dir)
	if linked := filepath.Dir(dir); filepath.Base(linked) == "worktrees" {
		r.Common = filepath.Dir(linked)
		back = filepath.Dir(l.names(filepath.Join(dir, "gitdir"), "", dir))
	}
	if back != real || !l.own(r.Common+"/objects") || !l.own(r.Common+"/refs") {
		return policy.Repository{}
	}
	return r
}

// names returns the canonical path that a line of a file names after a word; "" where there's none. The path is relative to dir.
func (l *loader) names(file, word, dir string) string {
	text, err := l.files.Read(file, maxLink)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), word); ok && path != "" {
			real, err := l.files.Real(absolute(path, dir))
			if err != nil {
				return ""
			}
			return real
		}
	}
	return ""
}

// own reports whether a path exists and is canonical.
func (l *loader) own(path string) bool {
	real, err := l.files.Real(path)
	return err == nil && real == path
}

// gitPath resolves a path, or a pattern, of a built-in file that begins with a placeholder for the repository, and reports whether it does. The
// path is empty where there's none.
func (l *loader) gitPath(path *string) bool {
	for _, p := range [...]struct{ word, dir string }{{"$GIT_DIR", l.git.Dir}, {"$GIT_COMMON", l.git.Common}} {
		if rest, ok := strings.CutPrefix(*path, p.word); ok {
			if *path = ""; p.dir != "" {
				*path = p.dir + rest
			}
			return true
		}
	}
	return false
}
