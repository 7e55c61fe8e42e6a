package session

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// twice is a machine on which /data is also /mnt, and /ws/a also /data/a.
type twice struct{}

func (twice) Lstat(p string) (policy.Kind, error) {
	switch p {
	case "/", "/ws", "/data", "/mnt":
		return policy.Dir, nil
	case "/ws/a", "/data/a", "/mnt/a":
		return policy.File, nil
	}
	return 0, fs.ErrNotExist
}

func (twice) Readlink(string) (string, error) { return "", fs.ErrInvalid }

func (twice) Mounts() ([]policy.Mount, error) {
	return []policy.Mount{{ID: 1, Root: "/", At: "/"}, {ID: 2, Parent: 1, Root: "/data", At: "/mnt"}}, nil
}

func (t twice) File(p string) (policy.FileID, uint64, error) {
	if strings.HasSuffix(p, "/a") {
		return policy.FileID{Inode: 7}, 2, nil
	}
	_, err := t.Lstat(p)
	return policy.FileID{}, 1, err
}

// What the programs can't hold under another name is told of the rule that isn't held.
func TestOtherNames(t *testing.T) {
	const r, w = policy.Read, policy.Write
	for _, c := range []struct {
		what  string
		rules []policy.FSRule
		why   string // of the last one
	}{
		{"a bind mount", []policy.FSRule{{Path: "/mnt", Caps: r | w}, {Path: "/data", Caps: r}}, ""},
		{"a hard link", []policy.FSRule{{Path: "/ws", Caps: r | w}, {Path: "/data/a", Caps: r}}, "hard links"},
		{"a hard link, nowhere more", []policy.FSRule{{Path: "/ws", Caps: r}, {Path: "/data/a", Caps: r}}, ""},
	} {
		l := policy.SourceLayer{Authority: policy.Session, FS: c.rules}
		l.Defaults[policy.FS] = policy.Deny
		compiled, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/ws", Home: "/ws", Layers: []policy.SourceLayer{l}}, twice{})
		if err != nil {
			t.Fatal(err)
		}
		rows := coverPrograms(compiled, nil)
		last := rows[len(rows)-1]
		if (last.Status == policy.Partly) != (c.why != "") || !strings.Contains(last.Why, c.why) {
			t.Errorf("%s: %s %v, %q; want %q", c.what, last.ID, last.Status, last.Why, c.why)
		}
		if first := rows[len(rows)-2]; first.Status != policy.Enforced {
			t.Errorf("%s: %s, which grants: %v, %q", c.what, first.ID, first.Status, first.Why)
		}
	}
}
