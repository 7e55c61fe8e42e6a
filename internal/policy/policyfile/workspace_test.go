package policyfile

import "testing"

func TestWorkspace(t *testing.T) {
	files := tree{
		"/w/go.mod": "", "/home/u/.git/x": "", "/home/u/mono/.git/x": "", "/home/package.json": "", "/.toolguard": "", "/w/sub/deep/x": "", "/q/p.toml": policyText("workspace = \"..\"\n"),
		"/q/home.toml": policyText("workspace = \"~/x\"\n"), "/q/abs.toml": policyText("workspace = \"/abs/./y\"\n"), "/q/none.toml": policyText(""), "/q/tilde.toml": policyText("workspace = \"~\"\n"),
	}
	for _, c := range []struct{ dir, policy, flag, want string }{
		{"/w/sub/deep", "/q/none.toml", "", "/w"},
		{"/elsewhere/x", "/q/none.toml", "", "/elsewhere/x"},
		{"/w/sub", "/q/p.toml", "", "/"},
		{"/w/sub", "/q/home.toml", "", "/home/u/x"},
		{"/w/sub", "/q/abs.toml", "", "/abs/y"},
		{"/w/sub", "/q/tilde.toml", "", "/home/u"},
		{"/w/sub", "/q/abs.toml", "deep", "/w/sub/deep"},
		{"/w/sub", "preset:go", "", "/w"},
		{"/home/u/mono/part", "preset:go", "", "/home/u/mono"},
		{"/home/u/proj", "preset:go", "", "/home/u/proj"}, // not the home
		{"/home/u", "preset:go", "", "/home/u"},
		{"/home/v/proj", "preset:go", "", "/home/v/proj"}, // nor what holds it
		{"/home", "preset:go", "", "/home"},
		{"/", "preset:go", "", "/"},
	} {
		req := request(c.policy)
		req.Dir, req.Workspace = c.dir, c.flag
		if got := load(t, req, files).Workspace; got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}
