package policy_test

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// A NoLink rule is in force only where its path is free of symlinks, but for those that lead to the home; one that denies also
// applies to a symlink at its path.
func TestNoLink(t *testing.T) {
	own := func(r policy.FSRule) policy.FSRule { r.NoLink, r.Optional = true, true; return r }
	files := fspathtest.New(map[string]string{
		"/home/u": "-> ../data/u", "/data/u/cache/x": "file", "/data/u/linked": "-> .ssh", "/data/u/.ssh/id": "file", "/data/u/up": "-> cache",
		"/data/u/dangling": "-> nowhere", "/git/hooks": "-> /shared", "/git/refs/x": "file", "/shared/x": "file", "/other": "-> git", "/w/x": "file",
	})
	for _, r := range []struct {
		rule policy.FSRule
		want string // where it's in force; "" for nowhere
	}{
		{own(policytest.Path("~/cache", policy.Read|policy.Write)), "/data/u/cache"},
		{own(policytest.Path("~/cache/x/../x", policy.Read)), "/data/u/cache/x"},
		{own(policytest.Path("~/linked", policy.Read)), ""},
		{own(policytest.Path("~/linked/id", policy.Read)), ""},
		{own(policytest.Path("~/up/x", policy.Read)), ""},
		{own(policytest.Path("~/dangling", policy.Read|policy.Create)), ""},
		{own(policytest.Path("/home/u/cache", policy.Read)), ""},
		{own(policytest.Path("/git/refs", policy.Read)), "/git/refs"},
		{own(policytest.Path("/other/refs", policy.Read)), ""},
		{own(policytest.Match("/git/**/x", policy.Read)), "/git"},
		{own(policytest.Match("/other/**/x", policy.Read)), ""},
		{own(policytest.Path("/git/hooks", policy.Read)), ""},
		{own(policytest.Path("/git/hooks", 0)), "/git/hooks"},
		{own(policytest.Path("/git/hooks/x", 0)), ""},
		{own(policytest.Path("/git/new", 0)), "/git/new"},
		{own(policytest.Path("x", policy.Read)), ""}, // the workspace's own files need none
		{policytest.Optional(policytest.Path("~/linked", policy.Read)), "/data/u/.ssh"},
		{policytest.Optional(policytest.Path("/git/hooks", 0)), "/shared"},
	} {
		c := policytest.CompileOn(t, files, policy.SourceLayer{FS: []policy.FSRule{r.rule}})
		got := ""
		for _, f := range c.Layers[1].FS.Rules() {
			got += f.FS.Path
		}
		if got != r.want {
			t.Errorf("%+v is in force at %q, want %q", r.rule, got, r.want)
		}
	}

	// A rule that is left out is listed, and isn't in the digest and the JSON.
	with := policytest.CompileOn(t, files, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read), own(policytest.Path("~/linked", policy.Read))}})
	if r := with.Removed; len(r) != 1 || r[0].By != nil || r[0].Link != "/data/u/.ssh" || r[0].Rule.ID != "fs.2" || explain.RuleText(r[0].Rule) != `{ path = "~/linked", read = true }` {
		t.Errorf("listed are %+v", r)
	}
	without := policytest.CompileOn(t, files, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read)}})
	text, err := with.MarshalJSON()
	childtest.Must(t, err)
	var read policy.Compiled
	childtest.Must(t, read.UnmarshalJSON(text))
	if with.Digest != without.Digest || read.Digest != with.Digest || read.CheckFS("/data/u/.ssh/id", policy.Read).Allow || !read.CheckFS("/w/x", policy.Read).Allow {
		t.Errorf("the digests are %s, %s and %s, and through the link: %v", with.Digest, without.Digest, read.Digest, read.CheckFS("/data/u/.ssh/id", policy.Read))
	}

	strict := own(policytest.Path("~/linked", policy.Read))
	strict.Optional = false
	if _, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: []policy.FSRule{strict}}), files); err == nil || !strings.Contains(err.Error(), `"~/linked" leads through a symlink, to /data/u/.ssh`) {
		t.Errorf("a rule that isn't optional: %v", err)
	}
}
