package patch

import (
	"slices"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// paths are all paths of a list of files.
func paths(files []File) (all []string) {
	for _, f := range files {
		all = append(all, f.Path, f.To)
	}
	return all
}

// Whatever the text: no panic, and no name less than go-gitdiff finds, which reads patches as git does.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{
		"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n" + hunk1,
		"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n--- /etc/evil\n+++ /etc/evil\n@@ -1 +1 @@\n-a\n+b\n",
		"diff --git \"a/t\\303\\244\" b/my file\nnew file mode 100644\n--- /dev/null\t1970-01-01 00:00:00\n+++ b/my file\t\n@@ -0,0 +1 @@\n+b\n",
		"diff --git a/my file b/my file\ndeleted file mode 100644\nGIT binary patch\nliteral 0\n\n",
		"*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@\n-a\n+b\n*** End Patch\n",
		"apply_patch <<'EOF'\n*** Delete File: x\nEOF\n", "Index: x\n===\n--- x\n+++ x 2026-01-02 03:04:05 +0000\n" + hunk1,
		"\ufeff--- x\r\n+++ x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		Looks(text)
		files, err := Files(text)
		if err != nil {
			return
		}
		ours := paths(files)
		theirs, _, _ := gitdiff.Parse(strings.NewReader(text)) // what it returns with an error was read before it
		for _, file := range theirs {
			for _, name := range []string{file.OldName, file.NewName} {
				plain := strings.TrimPrefix(strings.TrimPrefix(name, "a/"), "b/") // it keeps the prefixes of plain diffs
				if name != "" && !strings.HasSuffix(strings.TrimSpace(name), "dev/null") && !slices.Contains(ours, name) && !slices.Contains(ours, plain) && !slices.Contains(ours, strings.TrimSpace(plain)) {
					t.Errorf("go-gitdiff finds %q, and Files %q, in\n%s", name, ours, text)
				}
			}
		}
	})
}
