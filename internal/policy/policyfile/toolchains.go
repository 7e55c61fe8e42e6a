package policyfile

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// homeToolchains are the folders beneath a home in which version managers and package managers keep programs, each with what its programs
// load from elsewhere. None of them has credentials.
var homeToolchains = []struct {
	dir  string
	also []string
}{
	{".local/bin", strings.Fields(".local/lib .local/share/uv .local/share/pipx .local/share/mise")},
	{".cargo/bin", strings.Fields(".rustup")},
	{".pyenv", nil},
	{".nvm", nil},
	{".asdf", nil},
	{".rbenv", nil},
	{".nodenv", nil},
	{".jenv", nil},
	{".goenv", nil},
	{".volta", nil},
	{".fnm", nil},
	{".bun", nil},
	{".deno", nil},
	{".rustup", nil},
	{".sdkman/candidates", nil},
	{".ghcup", nil},
	{".linuxbrew", nil},
	{".nix-profile", nil},
	{".npm-global", nil},
	{".local/share/mise", strings.Fields(".config/mise")},
	{".local/share/fnm", nil},
	{".local/share/uv", nil},
	{".local/share/pipx", nil},
	{".local/share/pnpm", nil},
	{"go/bin", nil},
	{"sdk", nil},
	{"miniconda3", nil},
	{"miniforge3", nil},
	{"anaconda3", nil},
}

// systemToolchains are folders outside of a home beneath which each folder is an installation of its own.
var systemToolchains = strings.Fields("/opt /home/linuxbrew /snap /nix/store")

// toolchains lets the programs that PATH and the command lead to be read and executed, with what they load.
func (l *loader) toolchains() (rules []policy.FSRule) {
	var dirs []string
	known := map[string]bool{}
	add := func(dir string) {
		need, ok := l.toolchain(dir)
		for _, dir := range need {
			dirs, known[dir] = append(dirs, dir), ok
		}
	}
	for _, dir := range filepath.SplitList(l.req.Path) {
		add(dir)
	}
	file := l.command()
	add(filepath.Dir(file))
	for _, dir := range l.packages(file) {
		dirs, known[dir] = append(dirs, dir), true
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		rules = append(rules, policy.FSRule{
			Path: dir, Caps: policy.Read | policy.Execute, Secret: known[dir], Optional: true, NoLink: true, Position: policy.Position{File: "builtin:path"},
		})
	}
	return rules
}

// command is the file that the command is found at; "" where there's none.
func (l *loader) command() string {
	if l.req.Command == "" {
		return ""
	}
	for _, file := range fspath.Candidates(l.req.Path, l.req.Command) {
		if filepath.IsAbs(file) && l.files.Exists(file) {
			return file
		}
	}
	return ""
}

// packages is the folder of packages of node that a command's link leads into, as npm makes it, unless the link or the folder is where a
// command could have made it.
func (l *loader) packages(file string) []string {
	real, _ := l.files.Real(file)
	dir, _ := l.files.Real(filepath.Dir(file))
	above, _, found := strings.Cut(real, "/node_modules/")
	if !found || contains("/usr", real) || contains(l.workspaceDir, real) || contains(l.workspaceDir, dir) {
		return nil
	}
	return []string{above + "/node_modules"}
}

// toolchain are the folders that programs in dir need: those of the toolchain that is known, all of which is public, or dir alone. There are none where dir is the
// workspace's, or the whole of a home, or leads elsewhere: a command could have made it so, to be granted more by the next session.
func (l *loader) toolchain(dir string) (need []string, known bool) {
	if dir = filepath.Clean(dir); contains("/usr", dir) || contains("/bin", dir) || contains("/sbin", dir) {
		return nil, false // runtime's rules do
	}
	real, err := l.files.Real(dir)
	home, homeless := l.files.Real(l.req.Home)
	switch {
	case err != nil || !filepath.IsAbs(dir) || contains(l.workspaceDir, real) || homeless == nil && contains(real, home):
		return nil, false
	case homeless == nil && contains(home, real):
		for _, t := range homeToolchains {
			if contains(filepath.Join(home, t.dir), real) {
				for _, d := range append(t.also, t.dir) {
					need = append(need, filepath.Join(home, d))
				}
				return need, true
			}
		}
		if real == dir {
			return []string{real}, false
		}
		return nil, false
	}
	for _, top := range systemToolchains {
		if rest, ok := strings.CutPrefix(real, top+"/"); ok && (top != "/opt" || contains(top, dir)) {
			first, _, _ := strings.Cut(rest, "/")
			return []string{filepath.Join(top, first)}, top != "/opt"
		}
	}
	if real != dir || strings.Count(real, "/") == 1 {
		return nil, false // all of /opt, /srv, /tmp is too much
	}
	return []string{real}, false
}
