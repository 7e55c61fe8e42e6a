package hostfs

import (
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestMounts(t *testing.T) {
	file := things(t) + "/big"
	want := childtest.ReadFile(t, file)
	if got, err := whole(file); err != nil || got != string(want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if _, err := whole(file + "/x"); err == nil {
		t.Error("no error")
	}
	if _, err := whole(filepath.Dir(file)); err == nil {
		t.Error("a folder was read")
	}
	if mounts, err := (Machine{}).Mounts(); err != nil || len(mounts) == 0 {
		t.Error(mounts, err)
	}
}
