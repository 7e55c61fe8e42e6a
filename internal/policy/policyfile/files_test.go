package policyfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.toml")
	childtest.Must(t, os.WriteFile(big, bytes.Repeat([]byte("nonsense "), 10<<20/9), 0o600))
	b, err := hostfs.Machine{}.Read(big, tomltree.MaxSize+1)
	if err != nil || len(b) != tomltree.MaxSize+1 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	req := request(big)
	if _, _, err := Load(req, hostfs.Machine{}); err == nil || !strings.HasSuffix(err.Error(), "big.toml:1:1: the file is larger than 1024 KiB (is it really a policy?)") {
		t.Errorf("got %.200v", err)
	}
	small := filepath.Join(dir, "small.toml")
	childtest.Must(t, os.WriteFile(small, []byte(policyText("")), 0o600))
	if b, err := (hostfs.Machine{}).Read(small, tomltree.MaxSize+1); err != nil || string(b) != policyText("") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestExtendsNoDevice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.toml")
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\nextends = [\"/dev/zero\"]\n"), 0o600))
	if _, _, err := Load(request(file), hostfs.Machine{}); err == nil || err.Error() != file+`:2:12: can't read policy "/dev/zero": not a regular file` {
		t.Error(err)
	}
}
