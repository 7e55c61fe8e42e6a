package policy

import (
	"errors"
	"slices"
	"testing"
)

// What has more under another name is found, once for each rule.
func TestScan(t *testing.T) {
	files := []Linked{
		{"/data/a", FileID{Inode: 1}}, {"/w/a", FileID{Inode: 1}},
		{"/data/b", FileID{Inode: 2}}, {"/w/b", FileID{Inode: 2}},
		{"/w/c", FileID{Inode: 3}}, {"/w/d", FileID{Inode: 3}}, // the same under both names
		{"/data/e", FileID{Inode: 4}},                                      // the other name is elsewhere
		{"/w/f", FileID{Inode: 1 << 40}}, {"/pin", FileID{Inode: 1 << 40}}, // a rule knows it
	}
	sys := mounted{
		tree:   newTree(map[string]string{"/w/f": "file", "/pin": "file", "/data": "dir"}),
		inodes: map[string]uint64{"/w/f": 1 << 40, "/pin": 1 << 40},
	}
	c, err := Compile(source(SourceLayer{FS: []FSRule{p(".", Read|Write), p("/data", Read), p("/data/x", 0), p("/pin", Read)}}), sys)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	linked := func(root string) (out []Linked, err error) {
		asked = append(asked, root)
		for _, f := range files {
			if within(f.Path, root) {
				out = append(out, f)
			}
		}
		return out, nil
	}
	got, err := Scan(c, linked)
	want := "fs.2: /data/a is also /w/a, by a hard link, and there it gives create+update+delete more (and 1 file like it)"
	if err != nil || len(got) != 1 || got[0].Msg != want || got[0].Place.Line != 2 || got[0].Code != "hard-link" {
		t.Errorf("%v %+v", err, got)
	}
	if !slices.Equal(asked, []string{"/data", "/pin", "/w"}) {
		t.Error(asked)
	}
	if _, err := Scan(c, func(string) ([]Linked, error) { return nil, errors.New("no") }); err == nil {
		t.Error("a folder that can't be looked through is passed by")
	}
}
