package nearest

import "testing"

func TestHint(t *testing.T) {
	names := []string{"path", "paths", "command", "Read"}
	for got, want := range map[string]string{
		"read": "case matters: it is Read", "comm": `did you mean "command"?`, "pth": `did you mean "path"?`, "paht": `did you mean "path"?`,
		"x": "there are path, paths, command, Read", "unlike": "there are path, paths, command, Read",
	} {
		if h := Hint(got, names, "there are "); h != want {
			t.Errorf("%s: %s, want %s", got, h, want)
		}
	}
	if h := Hint("unlike", names, ""); h != "" {
		t.Errorf("%q", h)
	}
}

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b        string
		limit, want int
	}{{"", "", 3, 0}, {"ab", "ba", 3, 1}, {"abc", "adc", 3, 1}, {"abc", "ac", 3, 1}, {"abc", "xyz", 5, 3}, {"a", "abcdef", 3, 3}} {
		if got := Distance(row.a, row.b, row.limit); got != row.want {
			t.Errorf("%s, %s: %d, want %d", row.a, row.b, got, row.want)
		}
	}
}

func TestChoice(t *testing.T) {
	for want, words := range map[string][]string{`"a", "b" or "c"`: {"a", "b", "c"}, `"a" or "b"`: {"a", "b"}, `"a"`: {"a"}, "": nil} {
		if got := Choice(words); got != want {
			t.Errorf("%q: %s", words, got)
		}
	}
}
