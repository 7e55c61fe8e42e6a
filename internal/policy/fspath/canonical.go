package fspath

import "strings"

// MaxDepth and MaxPath are as far as a path is followed; beyond them is denied. The kernel's matcher counts the components alone: by one
// call can't name a longer path (PATH_MAX), but a process can reach one folder by folder.
const (
	MaxDepth = 128
	MaxPath  = 4096
)

// IsCanonical reports whether a matcher can follow path: absolute, clean, and within the limits.
func IsCanonical(path string) bool {
	if len(path) == 0 || path[0] != '/' || len(path) > MaxPath {
		return false
	}
	if len(path) == 1 {
		return true
	}
	depth, start := 0, 1
	for i := 1; ; i++ {
		if i < len(path) && path[i] != '/' {
			if path[i] == 0 {
				return false
			}
			continue
		}
		depth++
		switch i - start {
		case 0:
			return false
		case 1:
			if path[start] == '.' {
				return false
			}
		case 2:
			if path[start] == '.' && path[start+1] == '.' {
				return false
			}
		}
		if i == len(path) {
			return depth <= MaxDepth
		}
		start = i + 1
	}
}

// Within reports whether a clean absolute path is dir or lies beneath it.
func Within(p, dir string) bool {
	if dir == "/" {
		return true
	}
	return len(p) >= len(dir) && p[:len(dir)] == dir && (len(p) == len(dir) || p[len(dir)] == '/')
}

// Beneath is what p adds to dir, which it lies in; "" for dir itself.
func Beneath(p, dir string) string {
	if dir == "/" {
		dir = ""
	}
	return strings.TrimSuffix(p[len(dir):], "/")
}

// Join is the reverse of beneath.
func Join(dir, rest string) string {
	if dir == "/" {
		return rooted(rest)
	}
	return dir + rest
}

// rooted is a path of which the root is the empty one, as it is written.
func rooted(p string) string {
	if p == "" {
		return "/"
	}
	return p
}

// Depth is how many components a canonical path has.
func Depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// components cuts a clean absolute path; the root has none.
func components(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}
