package approval

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// maxRule is the longest rule, in bytes: half of what an approval may have.
const maxRule = maxSize / 2

// Facts is everything that allow-always is bound to. A call is allowed by a stored rule only if all of it is the same. A digest is SHA-256 in
// hexadecimal; an empty value means that there is no such fact, and differs from each other value.
type Facts struct {
	Tool, Agent     string
	ArgumentsSHA256 string
	Argv            []string // nil for a call that runs no command
	Cwd             string
	EnvSHA256       string
	Exe             *message.File
	Files           []message.File // in any order
}

// Rule returns the rule about exactly these facts, as a person sees it and as it's stored: a table of TOML, with one line for each
// fact. Different facts have different rules. Unprintable characters are escaped; characters that could look like others, which is all
// outside ASCII, are named in a comment.
//
// The error is why there can be no rule, and so only allow-once is possible.
func Rule(f *Facts) (string, error) {
	if err := f.check(); err != nil {
		return "", fmt.Errorf("no rule can be stored: %w", err)
	}
	var k tomltext.Keys
	k.Add("tool", tomltext.Quote(f.Tool)+unusual(f.Tool))
	k.Add("agent", tomltext.Quote(f.Agent)+unusual(f.Agent))
	k.AddString("arguments_sha256", f.ArgumentsSHA256)
	if f.Argv != nil {
		k.Add("argv", tomltext.Strings(f.Argv)+unusual(f.Argv...))
	}
	if f.Cwd != "" {
		k.Add("cwd", tomltext.Quote(f.Cwd)+unusual(f.Cwd))
	}
	k.AddString("env_sha256", f.EnvSHA256)
	if f.Exe != nil {
		k.Add("exe", file(f.Exe)+unusual(f.Exe.Path))
	}
	if files := f.sortedFiles(); files != nil {
		list := "["
		for i := range files {
			list += "\n  " + file(&files[i]) + "," + unusual(files[i].Path)
		}
		k.Add("files", list+"\n]")
	}
	text := k.Table("[[approved]]")
	if len(text) > maxRule {
		return "", fmt.Errorf("no rule can be stored: it would have %d KiB, more than %d", len(text)>>10, maxRule>>10)
	}
	return text, nil
}

// Key returns the key of a rule among the stored ones.
func Key(rule string) string {
	sum := sha256.Sum256([]byte(rule))
	return hex.EncodeToString(sum[:])
}

func file(f *message.File) string {
	var k tomltext.Keys
	k.Add("path", tomltext.Quote(f.Path))
	k.Add("sha256", tomltext.Quote(f.SHA256))
	return k.Inline()
}

// sortedFiles returns the files by path, each one once.
func (f *Facts) sortedFiles() []message.File {
	return slices.Compact(slices.SortedFunc(slices.Values(f.Files), func(a, b message.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	}))
}

// check returns why the facts can't be written so that they are seen, and read back, as they are.
func (f *Facts) check() error {
	switch {
	case f.Tool == "":
		return errors.New("the call has no tool")
	case f.Cwd != "" && !path.IsAbs(f.Cwd):
		return fmt.Errorf("the folder %q isn't absolute", f.Cwd)
	}
	for _, s := range append([]string{f.Tool, f.Agent, f.Cwd}, f.Argv...) {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q isn't UTF-8", s)
		}
	}
	for _, d := range []string{f.ArgumentsSHA256, f.EnvSHA256} {
		if d != "" && !isDigest(d) {
			return fmt.Errorf("%q is no SHA-256 digest in hexadecimal", d)
		}
	}
	files := f.sortedFiles()
	for i := range files {
		if i > 0 && files[i].Path == files[i-1].Path {
			return fmt.Errorf("the file %q has two digests", files[i].Path)
		}
		if err := checkFile(&files[i]); err != nil {
			return err
		}
	}
	if f.Exe != nil {
		return checkFile(f.Exe)
	}
	return nil
}

func checkFile(f *message.File) error {
	switch {
	case !path.IsAbs(f.Path):
		return fmt.Errorf("the file %q has no absolute path", f.Path)
	case !utf8.ValidString(f.Path):
		return fmt.Errorf("%q isn't UTF-8", f.Path)
	case !isDigest(f.SHA256):
		return fmt.Errorf("the file %q has no SHA-256 digest in hexadecimal", f.Path)
	}
	return nil
}

// isDigest reports whether a text is a SHA-256 digest in lower-case hexadecimal.
func isDigest(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// maxUnusual is how many characters a comment names.
const maxUnusual = 16

// unusual returns a comment that names the printable characters outside ASCII in texts; "" if there are none.
func unusual(texts ...string) string {
	var names []string
	for _, r := range strings.Join(texts, "") {
		if name := fmt.Sprintf("U+%04X", r); r > unicode.MaxASCII && strconv.IsPrint(r) && !slices.Contains(names, name) {
			if names = append(names, name); len(names) > maxUnusual {
				names[maxUnusual] = "and more"
				break
			}
		}
	}
	if names == nil {
		return ""
	}
	return " # not ASCII: " + strings.Join(names, ", ")
}
