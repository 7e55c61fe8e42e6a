package landlock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// inspected has the files that the kernel executes to run a program.
type inspected struct {
	interpreters []string // of a script: the program on its first line, and that program's if it's a script too
	loaders      []string // the dynamic loaders of those that are ELF files
}

// all returns all files that must be executable for the program to run.
func (in inspected) all() []string { return slices.Concat(in.interpreters, in.loaders) }

// maxScripts is how deep scripts may be each other's interpreters (exec_binprm, fs/exec.c).
const maxScripts = 5

// inspect reads the parts of a program that the kernel would read: the first line of a script, the PT_INTERP of an ELF file. It returns
// canonical paths. A file that is neither needs no other.
func inspect(program string) (inspected, error) {
	var in inspected
	for range maxScripts {
		script, loader, err := readHeader(program)
		if err != nil {
			return in, err
		}
		next, out := script, &in.interpreters
		if script == "" {
			next, out = loader, &in.loaders
		}
		if next == "" {
			return in, nil
		}
		next, err = filepath.EvalSymlinks(next)
		if err != nil {
			return in, fmt.Errorf("the interpreter of %s: %w", program, err)
		}
		*out = append(*out, next)
		if script == "" {
			return in, nil
		}
		program = next
	}
	return in, fmt.Errorf("%s: too many scripts that run each other", program)
}

// readHeader returns the interpreter of a script or the loader of an ELF file.
func readHeader(program string) (script, loader string, err error) {
	f, err := os.OpenFile(program, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a fifo without a writer
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", "", fmt.Errorf("%s isn't a regular file", program)
	}
	head := make([]byte, 256) // BINPRM_BUF_SIZE
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", "", err
	}
	head = head[:n]
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		return shebang(line), "", nil
	}
	loader, err = interp(f, head)
	return "", loader, err
}

// shebang returns the program on a script's first line; "" for a relative path, which depends on the working directory.
func shebang(line []byte) string {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	fields := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) == 0 || !filepath.IsAbs(fields[0]) {
		return ""
	}
	return fields[0]
}

// interp returns the PT_INTERP of a 64-bit little-endian ELF file; "" for any other file and for a static program.
func interp(f io.ReaderAt, head []byte) (string, error) {
	const class64, little, ptInterp = 2, 1, 3
	if len(head) < 64 || string(head[:4]) != "\x7fELF" || head[4] != class64 || head[5] != little {
		return "", nil
	}
	le := binary.LittleEndian
	off, size, n := int64(le.Uint64(head[32:])), int64(le.Uint16(head[54:])), int64(le.Uint16(head[56:]))
	if size < 56 || off < 0 {
		return "", nil
	}
	for i := range n {
		ph := make([]byte, 56)
		if _, err := f.ReadAt(ph, off+i*size); err != nil {
			return "", fmt.Errorf("read a program header: %w", err)
		}
		if le.Uint32(ph) != ptInterp {
			continue
		}
		name := make([]byte, min(le.Uint64(ph[32:]), 4096))
		if _, err := f.ReadAt(name, int64(le.Uint64(ph[8:]))); err != nil {
			return "", fmt.Errorf("read the loader's name: %w", err)
		}
		return string(bytes.TrimRight(name, "\x00")), nil
	}
	return "", nil
}
