package patch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// actions are the names of the actions.
var actions = [...]string{Create: "create", Modify: "modify", Delete: "delete", Move: "move", Read: "read"}

// describe returns the files of a text as one line, sorted, or its error.
func describe(text string) string {
	files, err := Files(text)
	if err != nil {
		return "error: " + err.Error()
	}
	var all []string
	for _, f := range files {
		line := actions[f.Action] + " " + f.Path
		if f.To != "" {
			line += " -> " + f.To
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

const hunk1 = "@@ -1 +1 @@\n-a\n+b\n"

// Unified diffs, git's and plain ones.
func TestUnified(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"git", "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n" + hunk1, "modify x"},
		{"git, created", "diff --git a/x b/x\nnew file mode 100644\nindex 0..2\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "create x"},
		{"git, empty file", "diff --git a/x b/x\nnew file mode 100644\nindex 0..2\n", "create x"},
		{"git, deleted", "diff --git a/x b/x\ndeleted file mode 100644\nindex 0..2\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "delete x"},
		{"git, reversed", "diff --git b/x a/x\nnew file mode 100644\n--- /dev/null\n+++ a/x\n@@ -0,0 +1 @@\n+b\n", "create x"},
		{"git, mode", "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "modify x"},
		{"git, binary", "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKc${Nk-~s>u5C8xG\n\n", "modify x"},
		{"git, renamed", "diff --git a/x b/d/y\nsimilarity index 100%\nrename from x\nrename to d/y\n", "move x -> d/y"},
		{"git, renamed and changed", "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n" + hunk1, "move x -> y"},
		{"git, old words for renaming", "diff --git a/x b/y\nrename old x\nrename new y\n", "move x -> y"},
		{"git, copied", "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "create y, read x"},
		{"git, renamed elsewhere than its first line says", "diff --git a/x b/x\nrename from /etc/shadow\nrename to p\n", "modify x, move /etc/shadow -> p"},
		{"git, quoted", "diff --git \"a/t\\ta\\303\\244\" \"b/t\\ta\\303\\244\"\n--- \"a/t\\ta\\303\\244\"\n+++ \"b/t\\ta\\303\\244\"\n" + hunk1, "modify t\ta\u00e4"},
		{"git, one quoted", "diff --git a/x \"b/\\\"y\"\nrename from x\nrename to \"\\\"y\"\n", "move x -> \"y"},
		{"git, blanks", "diff --git a/my file b/my file\nold mode 100644\nnew mode 100755\n", "modify my file"},
		{"git, blanks with a tab behind", "diff --git a/my file b/my file\n--- a/my file\t\n+++ b/my file\t\n" + hunk1, "modify my file"},
		{"git, blanks and another length", "diff --git i/my own file w/my own file\nold mode 100644\nnew mode 100755\n", "modify i/my own file, modify my own file, modify w/my own file"},
		{"git, no names", "diff --git\nrename from x\nrename to y\n", "move x -> y"},
		{"git, one name", "diff --git a/x\nold mode 100644\nnew mode 100755\n", "error: line 1 of the patch: the two names of diff --git can't be determined"},
		{"git, names that can't be separated", "diff --git a/x y b/z w\nold mode 100644\nnew mode 100755\n", "error: line 1 of the patch: the two names of diff --git can't be determined"},
		{"git, without prefixes", "diff --git d/x d/x\n--- d/x\n+++ d/x\n" + hunk1, "modify d/x, modify x"},
		{"git, other prefixes", "diff --git i/x w/x\n--- i/x\n+++ w/x\n" + hunk1, "modify i/x, modify w/x, modify x"},
		{"git, upwards", "diff --git a/../x b/../x\n--- a/../../x\n+++ b/../../x\n" + hunk1, "modify ../../x, modify ../x"},
		{"git, two slashes", "--- a//etc/x\n+++ b//etc/x\n" + hunk1, "modify /etc/x, modify etc/x"},
		{"two files", "--- a/x\n+++ b/x\n" + hunk1 + "--- a/y\n+++ b/y\n" + hunk1, "modify x, modify y"},
		{"git, two files", "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n" + hunk1, "create x, modify y"},
		{"plain", "--- x\n+++ x\n" + hunk1, "modify x"},
		{"plain, in a folder", "--- d/x\n+++ d/x\n" + hunk1, "modify d/x, modify x"},
		{"plain, absolute", "--- /etc/x\n+++ /etc/x\n" + hunk1, "modify /etc/x, modify etc/x"},
		{"plain, with times", "--- x.orig\t2026-01-02 03:04:05.000000000 +0000\n+++ x\t2026-01-02 03:04:06.000000000 +0000\n" + hunk1, "modify x, modify x.orig"},
		{"plain, time after a blank", "--- my x 2026-01-02 03:04:05 +0000\n+++ my x 2026-01-02 03:04:05 +0000\n" + hunk1, "modify my, modify my x, modify my x 2026-01-02 03:04:05 +0000"},
		{"plain, created", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "create x"},
		{"plain, created with a time", "--- /dev/null\t1970-01-01 00:00:00\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "create x"},
		{"plain, created by its time", "--- x\t1970-01-01 00:00:00.000000000 +0000\n+++ x\t2026-01-02 03:04:06.000000000 +0000\n" + hunk1, "create x"},
		{"plain, created by its hunk", "--- x\n+++ x\n@@ -0,0 +1 @@\n+b\n", "create x"},
		{"plain, deleted", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "delete x"},
		{"plain, deleted, and something stays", "--- a/x\n+++ /dev/null\n@@ -1,2 +1 @@\n-b\n c\n", "delete x, modify x"},
		{"plain, deleted by its time", "--- x\t2026-01-02 03:04:06 +0000\n+++ x\t1970-01-01 00:00:00 +0000\n" + hunk1, "delete x, modify x"},
		{"plain, deleted by its hunk", "--- x\n+++ x\n@@ -1 +0,0 @@\n-b\n", "delete x, modify x"},
		{"without context", "--- a/x\n+++ b/x\n@@ -5,2 +4,0 @@\n-b\n-c\n", "modify x"},
		{"Index", "Index: d/x\n===\n--- d/x\t(revision 1)\n+++ d/x\t(working copy)\n" + hunk1, "modify d/x, modify x"},
		{"Index alone", "Index: x\n" + hunk1, "modify x"},
		{"one name", "+++ x\n" + hunk1, "modify x"},
		{"the other name", "--- x\nsome text\n" + hunk1, "modify x"},
		{"CRLF", "diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", "modify x"},
		{"a message before it", "From 1 Mon\nSubject: rename from here\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n" + hunk1 + "-- \n2.39\n", "modify x"},
		{"no names", hunk1, ""},
		{"empty", "", ""},
		{"nothing of a patch", "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n", ""},
		{"symlink", "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n", "error: line 2 of the patch: it makes a symlink"},
		{"symlink's target", "diff --git a/x b/x\nindex 1..2 120000\n--- a/x\n+++ b/x\n" + hunk1, "error: line 2 of the patch: it makes a symlink"},
		{"symlink deleted", "diff --git a/x b/x\ndeleted file mode 120000\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-/etc\n", "delete x"},
		{"context diff", "*** x\n--- y\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n", "error: line 3 of the patch: it's a context diff, and only unified diffs are read"},
		{"quote without end", "--- \"a/x\n+++ \"b/x\n" + hunk1, `error: line 1 of the patch: the quoted name "\"a/x" has no end`},
		{"quote that isn't C's", "--- \"a/\\x41\"\n+++ b/x\n" + hunk1, `error: line 1 of the patch: the quoted name "\"a/\\x41\"" can't be read`},
		{"NUL", "--- \"a/x\\000y\"\n+++ \"b/x\\000y\"\n" + hunk1, `error: line 6 of the patch: "x\x00y" is no name of a file`},
		{"half a rename", "diff --git a/x b/y\nrename from x\n", "error: line 3 of the patch: a rename or copy has only one name"},
		{"two renames", "diff --git a/x b/y\nrename from x\nrename from z\nrename to y\n", `error: line 3 of the patch: "rename from" is given twice`},
	} {
		if got := describe(row.text); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
}

// Texts that two programs read differently give the files of both.
func TestTraps(t *testing.T) {
	head := "--- a/x\n+++ b/x\n"
	evil := "--- /etc/evil\n+++ /etc/evil\n"
	for _, row := range []struct{ name, text, want string }{
		{"content is no header", head + "@@ -1,2 +1 @@\n--- comment\n a\n", "modify x"},
		{"content of a header's form", head + "@@ -1 +1 @@\n" + evil, "modify x"},
		{"and a hunk behind it", head + "@@ -1 +1 @@\n" + evil + hunk1, "create /etc/evil, create etc/evil, modify x"},
		{"and a hunk behind it, CRLF", strings.ReplaceAll(head+"@@ -1 +1 @@\n"+evil+hunk1, "\n", "\r\n"), "create /etc/evil, create etc/evil, modify x"},
		{"swallowed by a count", head + "@@ -1,3 +1,3 @@\n-a\n+b\n" + evil + "@@ -1 +1 @@\n-a\n+b\n", "create /etc/evil, create etc/evil, modify x"},
		{"only the new name", head + "@@ -1 +1,2 @@\n a\n+++ a list\n", "modify x"},
		{"only the new name, and the count is wrong", head + "@@ -1 +1,3 @@\n a\n+++ /etc/evil\n@@ -1 +1 @@\n-a\n+b\n", "create /etc/evil, create etc/evil, modify x"},
		{"only the old name, and the count is wrong", head + "@@ -1,3 +1,3 @@\n-a\n--- /etc/evil\n@@ -1 +1 @@\n-a\n+b\n", "create /etc/evil, create etc/evil, modify x"},
		{"the count ends too early", head + "@@ -1 +1 @@\n-a\n+b\n--- /etc/evil\n c\n", "modify /etc/evil, modify etc/evil, modify x"},
		{"the count ends too early, after the name", head + "@@ -1 +1,2 @@\n-a\n+++ /etc/evil\n+b\n+c\n", "create /etc/evil, create etc/evil, modify x"},
		{"more removed than the count", head + "@@ -1 +1 @@\n-a\n--- /etc/evil\n+b\n", "modify /etc/evil, modify etc/evil, modify x"},
		{"a name that ends at its blank", "--- /etc/evil x\n+++ /etc/evil x\n" + hunk1, "modify /etc/evil, modify /etc/evil x, modify etc/evil, modify etc/evil x"},
		{"indented", "  --- /etc/evil\n  +++ /etc/evil\n  @@ -1 +1 @@\n  -a\n  +b\n", "modify /etc/evil, modify etc/evil"},
		{"a message in a message", "- --- /etc/evil\n- +++ /etc/evil\n- @@ -1 +1 @@\n- -a\n- +b\n", "modify /etc/evil, modify etc/evil"},
		{"after X", "X--- /etc/evil\nX+++ /etc/evil\nX@@ -1 +1 @@\nX-a\nX+b\n", "modify /etc/evil, modify etc/evil"},
		{"names that differ", "--- a/x\n+++ b/etc/evil\n" + hunk1, "modify etc/evil, modify x"},
		{"git's line and another name", "diff --git a/x b/x\n--- /etc/evil\n+++ /etc/evil\n" + hunk1, "modify /etc/evil, modify a/x, modify b/x, modify etc/evil, modify x"},
		{"a name without prefix, from which git concludes for all", "--- /dev/null\n+++ y\n@@ -0,0 +1 @@\n+b\n--- a/x\n+++ b/x\n" + hunk1, "create y, modify a/x, modify b/x, modify x"},
		{"prefixes that aren't git's", "--- a/x\n+++ a/x\n" + hunk1, "modify a/x, modify x"},
		{"a form feed", head + "@@ -1,2 +1,2 @@\n a\f+++ /etc/evil\n-a\n+b\n", `error: line 4 of the patch: "+++ /etc/evil" is a header only for programs that end a line at the character before it`},
		{"a lone CR", head + "@@ -1 +1,1 @@\n-a\r--- /etc/evil\n+b\n", `error: line 4 of the patch: "--- /etc/evil" is a header only for programs that end a line at the character before it`},
		{"U+2028", head + "@@ -1 +1,1 @@\n-a\n+b\u2028*** Update File: /etc/evil\n", `error: line 5 of the patch: "*** Update File: /etc/evil" is a header only for programs that end a line at the character before it`},
		{"apply_patch within a diff", head + "@@ -1 +1 @@\n *** Delete File: /etc/evil\n", "delete /etc/evil, modify x"},
		{"a diff within apply_patch", lines("*** Begin Patch", "*** Update File: x", "--- /etc/evil", "+++ /etc/evil", "@@ -1 +1 @@", "-a", "+b", "*** End Patch"), "modify /etc/evil, modify etc/evil, modify x"},
		{"without numbers, two files", "--- a\n+++ a\n--- b\n+++ b\n", "modify a, modify b"},
		{"a byte order mark", "\ufeff--- a/x\n+++ b/x\n" + hunk1, "modify x"},
	} {
		if got := describe(row.text); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
}

// The format of apply_patch.
func TestApplyPatch(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{
			"all", lines("*** Begin Patch", "*** Add File: new", "+x", "*** Update File: d/x", "@@ def f", " a", "-b", "+c", "*** End of File", "*** Delete File: old", "*** Update File: from", "*** Move to: to/x", "@@", "-a", "+b", "*** End Patch"),
			"create new, delete old, modify d/x, move from -> to/x",
		},
		{"without Begin", lines("*** Update File: /etc/passwd", "@@", "-a", "+b"), "modify /etc/passwd"},
		{"upwards", lines("*** Begin Patch", "*** Add File: ../../x", "+b", "*** End Patch"), "create ../../x"},
		{"indented", lines("  *** Begin Patch", "  *** Delete File: x", "  *** End Patch"), "delete x"},
		{"CRLF", "*** Begin Patch\r\n*** Delete File: x\r\n*** End Patch\r\n", "delete x"},
		{"another case", lines("*** begin patch", "*** delete file: x", "*** END PATCH"), "delete x"},
		{"Move File", lines("*** Begin Patch", "*** Move File: a -> d/b", "*** End Patch"), "move a -> d/b"},
		{"Move File and Move to", lines("*** Begin Patch", "*** Move File: a", "*** Move to: d/b", "*** End Patch"), "move a -> d/b"},
		{"a move after the change", lines("*** Update File: a", "@@", "-a", "+b", "*** Move to: b"), "modify a, move a -> b"},
		{"quotes", lines("*** Begin Patch", "*** Delete File: \"x\"", "*** End Patch"), "delete \"x\", delete x"},
		{"content", lines("*** Begin Patch", "*** Add File: x", "+*** Delete File: y", "*** End Patch"), "create x"},
		{"content in Lua", lines("*** Begin Patch", "*** Update File: x", "@@", "--- a comment", "+-- another", "*** End Patch"), "modify x"},
		{"two patches", lines("*** Begin Patch", "*** Delete File: x", "*** End Patch", "*** Begin Patch", "*** Delete File: y", "*** End Patch"), "delete x, delete y"},
		{"heredoc", lines("apply_patch <<'EOF'", "*** Begin Patch", "*** Delete File: x", "*** End Patch", "EOF"), "delete x"},
		{"heredoc alone", lines("<<\"EOF\"", "*** Begin Patch", "*** Delete File: $x", "*** End Patch", "EOF"), "delete $x"},
		{"heredoc that the shell expands", lines("apply_patch <<EOF", "*** Begin Patch", "*** Delete File: $HOME/x", "*** End Patch", "EOF"), `error: line 3 of the patch: the shell would change "*** Delete File: $HOME/x": quote the delimiter, <<'EOF'`},
		{"heredoc in another folder", lines("cd /etc && apply_patch <<'EOF'", "*** Begin Patch", "*** Delete File: x", "*** End Patch", "EOF"), `error: line 1 of the patch: "cd /etc && apply_patch <<'EOF'" is a command of a shell, and only apply_patch <<'EOF' is read`},
		{"a command after the heredoc", lines("apply_patch <<'EOF'", "*** Delete File: x", "EOF", "rm y"), `error: line 4 of the patch: "rm y" follows the end of the here-document`},
		{"fence", lines("```patch", "*** Begin Patch", "*** Delete File: x", "*** End Patch", "```"), "delete x"},
		{"unknown header", lines("*** Begin Patch", "*** Link File: x", "*** End Patch"), `error: line 2 of the patch: "*** Link File: x" is no header that apply_patch has`},
		{"no name", lines("*** Begin Patch", "*** Delete File: ", "*** End Patch"), `error: line 2 of the patch: "*** Delete File: " names no file`},
		{"two blanks", lines("*** Begin Patch", "*** Delete File:  x  ", "*** End Patch"), "delete  x, delete x"},
		{"target alone", lines("*** Begin Patch", "*** Move to: x", "*** End Patch"), `error: line 2 of the patch: "x" has no file that is moved`},
		{"move without target", lines("*** Begin Patch", "*** Move File: x", "*** End Patch"), `error: line 4 of the patch: "x" is moved, and the next line doesn't say where to`},
	} {
		if got := describe(row.text); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
}

func TestMaxFiles(t *testing.T) {
	var b strings.Builder
	for i := range maxFiles + 1 {
		fmt.Fprintf(&b, "*** Delete File: %d\n", i)
	}
	if _, err := Files(b.String()); err == nil || !strings.Contains(err.Error(), "more than 10000 files") {
		t.Errorf("%v", err)
	}
	if got := describe(strings.Repeat("\n", maxText+1)); got != "error: the patch is larger than 1024 KiB" {
		t.Error(got)
	}
	if got := describe("diff --git " + strings.Repeat("a ", 10000) + "\n"); got != "error: line 1 of the patch: the names of diff --git are longer than 16384 bytes" {
		t.Error(got)
	}
}

func TestLooks(t *testing.T) {
	for text, want := range map[string]bool{
		"*** Begin Patch\n":                                 true,
		"\n  *** begin patch\n":                             true,
		"*** Add File: x\n":                                 true,
		"--- a/x\n+++ b/x\n":                                true,
		"\ufeff--- x\r\n+++ x\r\n":                          true,
		"diff --git a/x b/x\n":                              true,
		"diff -ru a b\n":                                    true,
		"@@ -1 +1 @@\n":                                     true,
		"Index: x\n=====\n":                                 true,
		"*** x\n--- y\n":                                    true,
		"```diff\n--- x\n+++ y\n```":                        true,
		"apply_patch <<'EOF'\n*** Begin Patch\n":            true,
		"```\napply_patch <<'EOF'\n*** Begin Patch\n":       true,
		"cd /x && apply_patch <<'EOF'\n*** Begin Patch\n":   true,
		"From " + strings.Repeat("a", 40) + " Mon Sep 17\n": true,
		"commit " + strings.Repeat("a", 40) + "\n":          true,
		"":                                 false,
		"---\ntitle: x\n---\n":             false,
		"--- x\ntext\n":                    false,
		"*** bold ***\ntext\n":             false,
		"text\n*** Begin Patch\n":          false,
		"different from x\n":               false,
		"Index: of a book\n":               false,
		"From me to you\n":                 false,
		"cat <<EOF\ntext\nEOF\n":           false,
		"+++\ntitle = 1\n+++\n":            false,
		"- --- a list\n- +++ of strings\n": false,
	} {
		if got := Looks(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
