package policyfile

import "testing"

func TestWorkspace(t *testing.T) {
	files := tree{
		"/w/go.mod": "", "/w/sub/deep/x": "", "/q/p.toml": policyText("workspace = \"..\"\n"),
		"/q/home.toml": policyText("workspace = \"~/x\"\n"), "/q/abs.toml": policyText("workspace = \"/abs/./y\"\n"), "/q/none.toml": policyText(""),
	}
	for _, c := range []struct{ dir, policy, flag, want string }{
		{"/w/sub/deep", "/q/none.toml", "", "/w"},
		{"/elsewhere/x", "/q/none.toml", "", "/elsewhere/x"},
		{"/w/sub", "/q/p.toml", "", "/"},
		{"/w/sub", "/q/home.toml", "", "/home/u/x"},
		{"/w/sub", "/q/abs.toml", "", "/abs/y"},
		{"/w/sub", "/q/abs.toml", "deep", "/w/sub/deep"},
		{"/w/sub", "preset:go", "", "/w"},
	} {
		req := request(c.policy)
		req.Dir, req.Workspace = c.dir, c.flag
		if got := load(t, req, files).Workspace; got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}
