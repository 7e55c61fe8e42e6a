package landlock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// elf returns the start of an ELF file with two program headers, the second of which names a loader.
func elf(loader string) []byte {
	b := make([]byte, 64+2*56)
	copy(b, "\x7fELF\x02\x01")
	le := binary.LittleEndian
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 2)
	le.PutUint32(b[64:], 1)
	le.PutUint32(b[64+56:], 3)
	le.PutUint64(b[64+56+8:], uint64(len(b)))
	le.PutUint64(b[64+56+32:], uint64(len(loader)+1))
	return append(append(b, loader...), 0)
}

// withByte returns b with one byte changed.
func withByte(b []byte, at int, to byte) []byte {
	b = bytes.Clone(b)
	b[at] = to
	return b
}

// TestInspect checks that inspect finds every file that the kernel executes for a program, or fails.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	real := func(path string) string {
		p, err := filepath.EvalSymlinks(path)
		childtest.Must(t, err)
		return p
	}
	sh, env := real("/bin/sh"), real("/usr/bin/env")
	loaders, err := inspect(sh)
	if err != nil || loaders.interpreters != nil || len(loaders.loaders) > 1 {
		t.Fatal(loaders, err)
	}
	ld := loaders.loaders
	good := elf("/bin/sh")
	for i := range maxScripts {
		write(t, fmt.Sprintf("%s/chain%d", dir, i), fmt.Appendf(nil, "#!%s/chain%d\n", dir, i-1), 0o755)
	}
	write(t, dir+"/chain0", []byte("#!/bin/sh"), 0o755)
	for _, c := range []struct {
		what, text string
		want       []string
		err        string
	}{
		{"text", "text", nil, ""},
		{"empty", "", nil, ""},
		{"script", "#!/bin/sh\nexit", append([]string{sh}, ld...), ""},
		{"script with an argument", "#! \t/bin/sh\t-e x\n", append([]string{sh}, ld...), ""},
		{"script by a script", "#!" + dir + "/chain0 x", append([]string{dir + "/chain0", sh}, ld...), ""},
		{"too many scripts", fmt.Sprintf("#!%s/chain%d", dir, maxScripts-2), nil, "too many scripts"},
		{"no interpreter", "#!\n/bin/sh", nil, ""},
		{"interpreter without a path", "#!sh\n", nil, ""},
		{"absent interpreter", "#!/none/such\n", nil, "the interpreter of"},
		{"ELF", string(good), []string{sh}, ""},
		{"ELF, cut", string(good[:63]), nil, ""},
		{"ELF, not quite", string(withByte(good, 3, 'f')), nil, ""},
		{"ELF of 32 bits", string(withByte(good, 4, 1)), nil, ""},
		{"ELF, the other byte order", string(withByte(good, 5, 2)), nil, ""},
		{"ELF, small headers", string(withByte(good, 54, 55)), nil, ""},
		{"ELF, headers before the file", string(withByte(good, 39, 0x80)), nil, ""},
		{"ELF, without a loader", string(withByte(good, 64+56, 1)), nil, ""},
		{"ELF, cut in its headers", string(good[:100]), nil, "read a program header"},
		{"ELF, cut in the name", string(good[:len(good)-2]), nil, "read the loader's name"},
		{"ELF of 64 bytes", string(withByte(good, 56, 0)[:64]), nil, ""},
	} {
		write(t, dir+"/program", []byte(c.text), 0o755)
		in, err := inspect(dir + "/program")
		if got := in.all(); c.err == "" && (err != nil || !slices.Equal(got, c.want)) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
	}
	childtest.Must(t, unix.Mkfifo(dir+"/fifo", 0o755))
	for _, path := range []string{dir, dir + "/fifo", dir + "/absent"} {
		if _, err := inspect(path); err == nil {
			t.Errorf("%s is a program", path)
		}
	}
	if in, err := inspect(env); err != nil || !slices.Equal(in.all(), ld) {
		t.Errorf("%s: %v, %v", env, in, err)
	}
}
