package tomlformat

import "testing"

func TestAppendArgs(t *testing.T) {
	const head = "version = 1\n[access.commands.git]\n"
	for _, row := range []struct{ in, out string }{
		{head + "args = [[\"a\"]]\n", head + "args = [[\"a\"], [\"push\", \"\\\"x\"]]\n"},
		{head + "args = []", head + "args = [[\"push\", \"\\\"x\"]]"},
		{head + "args = [ # none\n]\n", head + "args = [[\"push\", \"\\\"x\"] # none\n]\n"},
		{head + "args = [\n  [\"a\", \"]\"], # mine ]\n  # more\n]\nenvs = [\"B\"]", head + "args = [\n  [\"a\", \"]\"], [\"push\", \"\\\"x\"] # mine ]\n  # more\n]\nenvs = [\"B\"]"},
		{"version = 1\n[access.commands]\ngit = { args = [[\"a\"]] } # x\n", "version = 1\n[access.commands]\ngit = { args = [[\"a\"], [\"push\", \"\\\"x\"]] } # x\n"},
		{"access.commands.\"git\".args = [['a']]\n", "access.commands.\"git\".args = [['a'], [\"push\", \"\\\"x\"]]\n"},
		{head + "args = { strategy = \"replace\", value = [[\"a\"]] }\n", ""},
		{head + "envs = []\n", ""},
		{"[access.commands.make]\nargs = [[\"a\"]]\n", ""},
		{"[access\n", ""},
	} {
		got, ok := AppendArgs([]byte(row.in), "git", []string{"push", "\"x"})
		if ok != (row.out != "") || string(got) != row.out {
			t.Errorf("%s becomes %t\n%s", row.in, ok, got)
		}
	}
}
