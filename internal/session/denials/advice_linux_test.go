package denials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// The suggested grant of a proxy has a scheme that egress reads, so that it allows no host behind it. Without one there is no suggestion.
func TestAdviceOfProxies(t *testing.T) {
	const plain = "[[access.net]]\nhost = \"127.0.0.1\"\nport = 3128\nallow = true\n"
	const read = "[[access.net]]\nhost = \"127.0.0.1\"\nscheme = \"http\"\nport = 3128\nallow = true\n"
	c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{
		{Authority: policy.Session, Net: []policy.NetRule{{Host: "api.example", Allow: true}}, Defaults: [policy.NumResources]policy.DefaultAction{policy.Env: policy.Allow}},
	}}, hostfs.Machine{})
	for _, x := range []struct{ env, target, want, advice string }{
		{"http_proxy=http://127.0.0.1:3128", "tcp://127.0.0.1:3128", read, "the proxy that http_proxy names: with scheme"},
		{"HTTPS_PROXY=http://u:p@localhost:3128/", "tcp://127.0.0.1:3128", read, "the proxy that HTTPS_PROXY names"},
		{"all_proxy=127.0.0.1:3128", "tcp://127.0.0.1:3128", read, "all_proxy"},
		{"http_proxy=http://127.0.0.1", "tcp://127.0.0.1:3128", read, "http_proxy"},
		{"http_proxy=http://127.0.0.1:3128", "http://127.0.0.1:3128", read, "http_proxy"},
		{"all_proxy=socks5://127.0.0.1:3128", "tcp://127.0.0.1:3128", "", "every host behind it"},
		{"https_proxy=https://127.0.0.1:3128", "tcp://127.0.0.1:3128", "", "every host behind it"},
		{"http_proxy=http://127.0.0.1:3129", "tcp://127.0.0.1:3128", plain, ""},
		{"no_proxy=127.0.0.1:3128", "tcp://127.0.0.1:3128", plain, ""},
		{"http_proxy=", "tcp://127.0.0.1:3128", plain, ""},
		{"proxy_password=127.0.0.1:3128", "tcp://127.0.0.1:3128", plain, ""},
	} {
		r := describer{&Config{Proxies: ProxiesOf(c, []string{"A=b", x.env})}, c}
		e := event.Event{Extra: map[string]string{}}
		q := explain.Question{Resource: policy.Net, Target: x.target}
		at, err := q.NetTarget()
		childtest.Must(t, err)
		r.suggest(&e, c.CheckNet(&at), q)
		if e.Suggest != x.want || !strings.Contains(e.Extra["advice"], x.advice) || (x.advice == "") != (e.Extra["advice"] == "") {
			t.Errorf("%s, %s: suggests %q, %q", x.env, x.target, e.Suggest, e.Extra["advice"])
		}
	}
	cfg := &Config{Proxies: []api.Proxy{{Variable: "http_proxy", Scheme: "http", Host: "proxy.corp"}}}
	for target, offered := range map[string]bool{"http://proxy.corp:3128/": true, "tcp://proxy.corp:3128": false, "https://proxy.corp:3128/": false} {
		e := Describe(cfg, c, &message.Denial{Answer: explain.Answer{Target: target, Suggest: "x"}}, nil)
		if (e.Suggest != "") != offered || e.Extra["advice"] == "" {
			t.Errorf("%s: suggests %q, %q", target, e.Suggest, e.Extra["advice"])
		}
	}
}

// A denial that file permissions would make too is marked, and suggests no grant.
func TestAdviceOfPermissions(t *testing.T) {
	dir := t.TempDir()
	open, closed := filepath.Join(dir, "open"), filepath.Join(dir, "closed")
	childtest.Must(t, os.Mkdir(open, 0o777))
	childtest.Must(t, os.Mkdir(closed, 0o777))
	childtest.Must(t, os.Chmod(open, 0o777))
	childtest.Must(t, os.Chmod(closed, 0o555))
	layer := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: "/", Caps: policy.Read}}}
	kept := layer
	kept.Capabilities = []string{"CAP_DAC_OVERRIDE"}
	for _, x := range []struct {
		layer   policy.SourceLayer
		folder  string
		anyway  bool
		blocker string
	}{
		{layer, open, false, "fs.make_reg"},
		{layer, closed, true, "fs.make_reg"},
		{layer, closed, true, "fs.remove_file"},
		{layer, closed, false, "fs.write_file"}, // the kernel checks permissions first
		{kept, closed, false, "fs.make_reg"},
	} {
		c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: dir, Home: "/", Layers: []policy.SourceLayer{x.layer}}, hostfs.Machine{})
		k := kernelaudit.Denial{Source: kernelaudit.Landlock, PID: os.Getpid(), UID: os.Getuid(), Blockers: []string{x.blocker}, Path: x.folder}
		e := Describe(&Config{}, c, &k, []event.Process{{PID: k.PID, UID: k.UID}})
		if got := e.Extra["anyway"] != ""; got != x.anyway || got && e.Suggest != "" || !got && e.Suggest == "" {
			t.Errorf("%s in %s: %+v, suggests %q", x.blocker, x.folder, e.Extra, e.Suggest)
		}
	}
}
