package fspath

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mount is a mount of the machine.
type Mount struct {
	ID, Parent int
	Dev        uint32 // the file system's device number, as the kernel has it: the major one times 1<<20, plus the minor one
	Root       string // what of the file system is mounted; no path where it has no name there (deleted, a namespace)
	At         string // where, canonical
}

// ParseMounts reads a table of mounts in the form of /proc/self/mountinfo (proc_pid_mountinfo(5)).
func ParseMounts(text string) ([]Mount, error) {
	mounts := make([]Mount, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		m, ok := parseMount(line)
		if !ok {
			return nil, fmt.Errorf("%q isn't a mount", line)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func parseMount(line string) (m Mount, ok bool) {
	var f [5]string
	for i := range f {
		if f[i], line, ok = strings.Cut(line, " "); !ok {
			return m, false
		}
	}
	major, minor, ok := strings.Cut(f[2], ":")
	id, err1 := strconv.Atoi(f[0])
	parent, err2 := strconv.Atoi(f[1])
	dev1, err3 := strconv.ParseUint(major, 10, 12)
	dev2, err4 := strconv.ParseUint(minor, 10, 20)
	at := unescape(f[4])
	if !ok || err1 != nil || err2 != nil || err3 != nil || err4 != nil || !strings.HasPrefix(at, "/") {
		return m, false
	}
	return Mount{id, parent, uint32(dev1<<20 | dev2), unescape(f[3]), at}, true
}

// unescape undoes what the kernel does to blanks and backslashes (seq_path_root, fs/seq_file.c): three octal digits each.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// MountTable are the mounts that are visible, by where they are: those that another one hides aren't there.
type MountTable map[string]*Mount

func VisibleMounts(all []Mount) MountTable {
	order := make([]*Mount, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortStableFunc(order, func(a, b *Mount) int { // outer mounts come before inner ones
		return cmp.Or(cmp.Compare(len(a.At), len(b.At)), strings.Compare(a.At, b.At))
	})
	t := make(MountTable, len(all))
	for len(order) > 0 {
		n := 1
		for n < len(order) && order[n].At == order[0].At {
			n++
		}
		t.stack(order[:n])
		order = order[n:]
	}
	return t
}

// stack orders mounts at one path: the first is on the file system around it, each other one on the one before.
func (t MountTable) stack(here []*Mount) {
	at := here[0].At
	under := t.Of(path.Dir(at))
	for range here {
		i := slices.IndexFunc(here, func(m *Mount) bool { return m.on(under, here) })
		if i < 0 {
			return
		}
		under, t[at] = here[i], here[i]
	}
}

// on reports whether m is mounted on under; nil is what isn't in the table: what the topmost folder is in.
func (m *Mount) on(under *Mount, here []*Mount) bool {
	if under != nil {
		return m != under && m.Parent == under.ID
	}
	return !slices.ContainsFunc(here, func(o *Mount) bool { return o != m && o.ID == m.Parent })
}

// Of is the mount that a canonical path is in; nil when that isn't known.
func (t MountTable) Of(p string) *Mount {
	for {
		if m := t[p]; m != nil || p == "/" {
			return m
		}
		p = path.Dir(p)
	}
}

// Aliases returns the paths that have more than one name.
func (t MountTable) Aliases() []Alias {
	order := make([]*Mount, 0, len(t))
	for _, m := range t {
		if strings.HasPrefix(m.Root, "/") && !strings.HasSuffix(m.Root, "//deleted") {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b *Mount) int {
		return cmp.Or(cmp.Compare(a.Dev, b.Dev), strings.Compare(a.Root, b.Root), strings.Compare(a.At, b.At))
	})
	var out []Alias
	for i, a := range order {
		for _, b := range order[i+1:] {
			if b.Dev != a.Dev || !strings.HasPrefix(b.Root, a.Root) {
				break
			}
			if !Within(b.Root, a.Root) {
				continue
			}
			// What b mounts has a name in a, too, unless that leads into another mount.
			if name := Join(a.At, Beneath(b.Root, a.Root)); t.Of(name) == a {
				holes := t.holes(name, b.At)
				out = append(out, Alias{name, b.At, Depth(b.At), holes}, Alias{b.At, name, Depth(a.At), holes})
			}
		}
	}
	return out
}

// holes are where something is mounted beneath one of two names for one thing, as what follows the name.
func (t MountTable) holes(names ...string) (out []string) {
	for at := range t {
		for _, name := range names {
			if at != name && Within(at, name) {
				out = append(out, Beneath(at, name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
