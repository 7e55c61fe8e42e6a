package fspath

import "strings"

// stepProc handles the folders of processes in /proc. /proc/self is a keyword of the language: it stays as it is, because
// it is a different folder for every process of a session and never the one of the process that compiles or checks.
// The links in such a folder aren't ordinary symlinks: they lead to an object directly, and their text isn't its path
// (proc(5), fs/proc/base.c proc_pid_get_link).
func (w *walk) stepProc(name string, follow bool) (done bool, err error) {
	folder, own := ProcFolder(w.cur)
	if folder == "" {
		if w.cur == "/proc" && (name == "self" || name == "thread-self") {
			w.cur, w.kind = w.child(name), Dir
			return true, nil
		}
		return false, nil
	}
	if w.Literal {
		if own {
			w.cur, w.kind = w.child(name), File
		}
		return own, nil
	}
	if follow && magicLink(w.cur[len(folder):], name) {
		if own && name == "root" {
			w.cur, w.kind = "", Dir // a session can't change its root
			return true, nil
		}
		return false, errMagic
	}
	if own {
		w.cur, w.kind = w.child(name), File
	}
	return own, nil
}

// ProcFolder is the folder of a process that path is or lies beneath, and whether it is the process's own.
func ProcFolder(path string) (folder string, own bool) {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, "/")
	own = name == "self" || name == "thread-self"
	if !own && strings.Trim(name, "0123456789") != "" {
		return "", false
	}
	return path[:len("/proc/")+len(name)], own
}

// magicLink reports whether name, at inside beneath a process's folder, is one of the links that jump.
func magicLink(inside, name string) bool {
	if rest, ok := strings.CutPrefix(inside, "/task/"); ok { // a thread's folder has the same links
		_, after, _ := strings.Cut(rest, "/")
		inside = ""
		if after != "" {
			inside = "/" + after
		}
	}
	switch inside {
	case "":
		return name == "root" || name == "cwd" || name == "exe"
	case "/fd", "/map_files", "/ns":
		return true
	}
	return false
}
