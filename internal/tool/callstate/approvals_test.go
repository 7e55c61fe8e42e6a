//go:build unix

package callstate

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/message"
)

const approvalsEnv = "TOOLGUARD_TEST_APPROVALS" // "FILE add NAME", "FILE use KEY" or "FILE take WORKSPACE": a child that prints what it has done

func runApprovals(order string) error {
	var file, verb, name string
	_, err := fmt.Sscan(order, &file, &verb, &name)
	a := NewApprovals(file, time.Now)
	for i := 0; err == nil && verb == "add" && i < 1000; i++ {
		g := grant(fmt.Sprint(name, "-", i))
		if err = a.Add(g); err == nil {
			fmt.Println(g.Key)
		}
	}
	switch verb {
	case "use":
		var g *Grant
		if g, err = a.Use(name); err == nil {
			fmt.Println(g != nil)
		}
	case "take":
		var rules []Addition
		rules, err = a.TakeRules(name, "", []string{"p.toml"})
		for _, r := range rules {
			fmt.Println(strings.TrimSpace(r.Rule))
		}
	}
	return err
}

func approvalsChild(file, verb, name string) *exec.Cmd {
	return childWith(fmt.Sprintf("%s=%s %s %s", approvalsEnv, file, verb, name))
}

var allowedBy = message.By{UID: 1000, PID: 4711, Exe: "/usr/bin/toolguard", Via: "command"}

func stored(rule string) Stored {
	return Stored{Rule: rule, Created: 1800000000000, By: allowedBy}
}

func grant(argument string) *Grant {
	rule := fmt.Sprintf("[[approved]]\ntool = \"Bash\"\nagent = \"\"\nargv = [%q]\n", argument)
	return &Grant{Key: approval.Key(rule), Stored: stored(rule), Tool: "Bash", Agent: "claude"}
}

func addition(rule, workspace string, policies ...string) *Addition {
	return &Addition{Stored: stored(rule), Workspace: workspace, Policies: policies}
}

// newApprovals is a store with a clock of its own.
func newApprovals(t *testing.T) (a *Approvals, now *time.Time) {
	now = new(time.Time)
	*now = time.UnixMilli(1800000000000)
	return NewApprovals(filepath.Join(t.TempDir(), "approvals.json"), func() time.Time { return *now }), now
}

// What is stored is found by other stores on the same file, exactly as it was shown, until it's removed.
func TestGrants(t *testing.T) {
	a, _ := newApprovals(t)
	first, second := grant("a \"b\" <c> \u202e"), grant("b")
	for _, key := range []string{first.Key, ""} {
		if g, err := a.Find(key); g != nil || err != nil {
			t.Errorf("%+v %v", g, err)
		}
	}
	childtest.Must(t, a.Add(first))
	childtest.Must(t, a.Add(second))
	another := NewApprovals(a.path, time.Now)
	for _, want := range []*Grant{first, second} {
		for range 2 { // each is for many uses
			if g, err := another.Use(want.Key); err != nil || !reflect.DeepEqual(g, want) {
				t.Errorf("%+v %v", g, err)
			}
		}
	}
	later := *second
	later.Created++
	childtest.Must(t, a.Add(&later)) // once more
	if list, err := a.List(); err != nil || !reflect.DeepEqual(list, []Grant{*first, later}) {
		t.Errorf("%+v %v", list, err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := a.Remove(first.Key); err != nil || removed != want {
			t.Error(removed, err)
		}
	}
	if g, err := a.Find(first.Key); g != nil || err != nil {
		t.Errorf("%+v %v", g, err)
	}
	if g, err := a.Find(second.Key); g == nil || err != nil {
		t.Errorf("the positive control: %v", err)
	}
	checkMode(t, a.path)
}

// A grant for a single use is used once. One that has expired isn't found, and the next change removes it.
func TestGrantEnds(t *testing.T) {
	a, now := newApprovals(t)
	once, hour := grant("once"), grant("hour")
	once.Once, hour.Expires = true, now.Add(time.Hour).UnixMilli()
	childtest.Must(t, a.Add(once))
	childtest.Must(t, a.Add(hour))
	if g, err := a.Find(once.Key); g == nil || err != nil { // which doesn't use it
		t.Error(err)
	}
	if g, err := a.Use(once.Key); err != nil || !reflect.DeepEqual(g, once) {
		t.Errorf("%+v %v", g, err)
	}
	if g, err := a.Use(once.Key); g != nil || err != nil {
		t.Errorf("%+v %v", g, err)
	}
	*now = now.Add(time.Hour - time.Millisecond)
	if g, err := a.Use(hour.Key); g == nil || err != nil {
		t.Error(err)
	}
	*now = now.Add(time.Millisecond)
	if g, err := a.Use(hour.Key); g != nil || err != nil {
		t.Errorf("%+v %v", g, err)
	}
	if removed, err := a.Remove(hour.Key); removed || err != nil {
		t.Error(removed, err)
	}
	childtest.Must(t, a.Add(once))
	if text, err := os.ReadFile(a.path); err != nil || strings.Contains(string(text), hour.Key) {
		t.Errorf("%s %v", text, err)
	}
}

// A rule is for sessions with the same workspace and policy files; one for a single use is for the first of them.
func TestTakeRules(t *testing.T) {
	a, now := newApprovals(t)
	take := func(workspace string, policies ...string) string {
		rules, err := a.TakeRules(workspace, "", policies)
		childtest.Must(t, err)
		var texts []string
		for _, r := range rules {
			texts = append(texts, r.Rule)
		}
		return strings.Join(texts, " ")
	}
	if got := take("/w", "p.toml"); got != "" {
		t.Error(got)
	}
	once, hour := addition("once", "/w", "p.toml"), addition("hour", "/w", "p.toml")
	once.Once, hour.Expires = true, now.Add(time.Hour).UnixMilli()
	ofAgent := addition("always", "/w", "p.toml")
	ofAgent.Agent = "reviewer"
	for _, r := range []*Addition{ofAgent, once, addition("always", "/w", "p.toml"), hour, addition("none", "/w"), addition("two", "/w", "p.toml", "q.toml"), addition("other", "/v", "p.toml"), addition("joined", "/w", "p.toml q.toml"), addition("always", "/w", "p.toml")} {
		childtest.Must(t, a.AddRule(r))
	}
	for i, row := range []struct {
		workspace, policies, want string
	}{
		{"/w", "p.toml", "once hour always"},
		{"/w", "p.toml", "hour always"},
		{"/w", "", "none"},
		{"/w", "p.toml,q.toml", "two"},
		{"/w", "q.toml,p.toml", ""},
		{"/v", "p.toml", "other"},
		{"/w/", "p.toml", ""},
		{"", "p.toml", ""},
	} {
		policies := strings.FieldsFunc(row.policies, func(r rune) bool { return r == ',' })
		if got := take(row.workspace, policies...); got != row.want {
			t.Errorf("%d: got %q, want %q", i, got, row.want)
		}
	}
	if rules, err := a.TakeRules("/w", "reviewer", []string{"p.toml"}); err != nil || len(rules) != 1 || rules[0].Agent != "reviewer" {
		t.Errorf("of an agent: %+v %v", rules, err)
	}
	*now = now.Add(time.Hour)
	if got := take("/w", "p.toml"); got != "always" {
		t.Error(got)
	}
	rules, err := a.Rules()
	childtest.Must(t, err)
	for _, r := range rules {
		if removed, err := a.Remove(r.Key); !removed || err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if rules, err = a.Rules(); len(rules) > 0 || err != nil {
		t.Errorf("%+v %v", rules, err)
	}
}

// What wouldn't be read back as it is isn't stored.
func TestImpossible(t *testing.T) {
	a, _ := newApprovals(t)
	for want, edit := range map[string]func(*Grant){
		"key isn't that of its rule": func(g *Grant) { g.Rule += " " },
		"names no tool":              func(g *Grant) { g.Tool = "" },
		"times are impossible":       func(g *Grant) { g.Created = 0 },
		"times are":                  func(g *Grant) { g.Expires = -1 },
		"who allowed it":             func(g *Grant) { g.By = message.By{} },
		`"\xff" isn't UTF-8`:         func(g *Grant) { g.Agent = "\xff" },
		`"\xfe" isn't UTF-8`:         func(g *Grant) { g.By.Exe = "\xfe" },
		"more than 64 KiB": func(g *Grant) {
			g.Rule = strings.Repeat("a", maxRule+1)
			g.Key = approval.Key(g.Rule)
		},
		"it has no rule": func(g *Grant) { g.Rule, g.Key = "", approval.Key("") },
		"isn't UTF-8":    func(g *Grant) { g.Rule, g.Key = "\xff", approval.Key("\xff") },
	} {
		g := grant("a")
		edit(g)
		if err := a.Add(g); err == nil || !strings.HasPrefix(err.Error(), "the stored approvals: the grant can't be stored: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, r := range map[string]*Addition{
		"it has no workspace": addition("r", "", "p.toml"), "it has no rule": addition("", "/w"), `"/\xff" isn't UTF-8`: addition("r", "/\xff"), `"\xff" isn't UTF-8`: addition("r", "/w", "\xff"),
	} {
		if err := a.AddRule(r); err == nil || !strings.HasPrefix(err.Error(), "the stored approvals: the rule can't be stored: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := os.Stat(a.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was stored: %v", err)
	}
}

// operations are all that read or change a file.
var operations = map[string]func(*Approvals) error{
	"Add":       func(a *Approvals) error { return a.Add(grant("another")) },
	"AddRule":   func(a *Approvals) error { return a.AddRule(addition("another", "/w")) },
	"Find":      func(a *Approvals) error { _, err := a.Find("x"); return err },
	"Use":       func(a *Approvals) error { _, err := a.Use("x"); return err },
	"List":      func(a *Approvals) error { _, err := a.List(); return err },
	"Rules":     func(a *Approvals) error { _, err := a.Rules(); return err },
	"TakeRules": func(a *Approvals) error { _, err := a.TakeRules("/w", "", nil); return err },
	"Remove":    func(a *Approvals) error { _, err := a.Remove("x"); return err },
}

func checkOperations(t *testing.T, name, file, want string) {
	t.Helper()
	for op, do := range operations {
		if err := do(NewApprovals(file, time.Now)); err == nil || !strings.HasPrefix(err.Error(), "the stored approvals: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: got %v, want an error with %q", op, name, err, want)
		}
	}
}

// A file that isn't whole is an error, never an empty store, and stays as it is.
func TestDamagedApprovals(t *testing.T) {
	a, _ := newApprovals(t)
	once := addition("rule", "/w", "p.toml")
	once.Once = true
	childtest.Must(t, a.Add(grant("a")))
	childtest.Must(t, a.AddRule(once))
	text := childtest.ReadFile(t, a.path)
	edit := editor(t, text)
	list := func(name string) string { // the elements of a list
		_, list, _ := strings.Cut(string(text), `"`+name+`":[`)
		list, _, _ = strings.Cut(list, `}]`) // none of the texts has one
		return list + "}"
	}
	rows := map[string]string{
		"": "it's damaged", "{}": "no stored approvals", "null": "no stored approvals", "[]": "it's damaged", "\x00": "it's damaged",
		edit(`"version":1`, `"version":2`): "version 2", edit(approvalsFormat, format): "no stored approvals", edit(`"format"`, `"more":1,"format"`): "it's damaged",
		edit(`"grants":[`, `"grants":null,"x":[`): "it's damaged", edit(`"rules":[`+list("rules")+`]`, `"rules":null`): "no stored approvals",
		edit(`"grants":[`+list("grants")+`]`, `"grants":null`): "no stored approvals",
		edit(`argv = [\"a\"]`, `argv = [\"b\"]`):               "its key isn't that of its rule", edit(`"/w"`, `"/"`): "its key isn't that of its content", edit(`"p.toml"`, `"q.toml"`): "its content",
		edit(`["p.toml"]`, `null`): "no list of policy files", edit(`"tool":"Bash"`, `"tool":""`): "names no tool", edit(`"created_at_ms":1`, `"created_at_ms":-1`): "times are impossible",
		edit(`"via":"command"`, `"via":""`): "who allowed it", edit(`"once":true`, `"once":1`): "it's damaged", edit(`"rules":[`, `"rules":[`+list("rules")+","): "it's there twice",
		edit(`"grants":[`, `"grants":[`+list("grants")+","): "it's there twice", string(text) + "{}": "more after its end",
		string(text) + strings.Repeat(" ", maxSize): "larger than 4096 KiB: remove it to be asked about everything again",
	}
	checkDamaged(t, rows, text, 37, func(t *testing.T, name, file, want string) {
		checkOperations(t, name, file, want)
		if !strings.HasPrefix(want, "larger") {
			checkOperations(t, name, file, "(remove the file to be asked about everything again)")
		}
	})
	for op, do := range operations {
		if err := do(a); err != nil {
			t.Errorf("the positive control, %s: %v", op, err)
		}
	}
}

// A file that another user could have made, or could replace, is an error, also when it's only read.
func TestForeignApprovals(t *testing.T) { checkForeign(t, foreignFiles, checkOperations) }

// Grants that don't fit any more aren't stored, and those that are there still count.
func TestManyGrants(t *testing.T) {
	a, _ := newApprovals(t)
	st, err := parseApprovals(nil)
	childtest.Must(t, err)
	large := func(i int) *Grant {
		rule := fmt.Sprint(i, strings.Repeat("a", maxRule-10))
		return &Grant{Key: approval.Key(rule), Stored: stored(rule), Tool: "Bash"}
	}
	for i := range maxSize/maxRule - 2 {
		st.Grants = append(st.Grants, *large(i))
	}
	writeState(t, a.path, st)
	childtest.Must(t, a.Add(large(1000)))
	if err := a.Add(large(1001)); err == nil || !strings.Contains(err.Error(), "would be larger than 4096 KiB: remove it to be asked about everything again") {
		t.Error(err)
	}
	if list, err := a.List(); len(list) != maxSize/maxRule-1 || err != nil {
		t.Errorf("%d: %v", len(list), err)
	}
}

// However processes are killed, each grant that they have acknowledged is in the file, and no grant is there that wasn't added.
func TestKillApprovals(t *testing.T) {
	const kills = 60
	file := filepath.Join(t.TempDir(), "approvals.json")
	r := rand.New(rand.NewPCG(3, 4))
	acknowledged, possible := map[string]bool{}, map[string]bool{}
	for i := range kills {
		var group sync.WaitGroup
		var mu sync.Mutex
		for _, writer := range []string{"a", "b"} {
			name, delay := fmt.Sprint(writer, i), time.Duration(r.IntN(8000))*time.Microsecond
			for n := range 1000 {
				possible[grant(fmt.Sprint(name, "-", n)).Key] = true
			}
			cmd := approvalsChild(file, "add", name)
			out, err := cmd.StdoutPipe()
			childtest.Must(t, err)
			childtest.Must(t, cmd.Start())
			group.Go(func() {
				lines := bufio.NewScanner(out)
				for first := true; lines.Scan(); first = false {
					mu.Lock()
					acknowledged[lines.Text()] = true
					mu.Unlock()
					if first {
						time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
					}
				}
				if err := cmd.Wait(); err == nil {
					t.Error("it wasn't killed")
				}
			})
		}
		group.Wait()
	}
	list, err := NewApprovals(file, time.Now).List()
	childtest.Must(t, err)
	for _, g := range list {
		if !possible[g.Key] {
			t.Errorf("%s was never added", g.Rule)
		}
		delete(acknowledged, g.Key)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d grants are lost", len(acknowledged))
	}
	if len(list) < 2*kills {
		t.Errorf("only %d grants: the test shows little", len(list))
	}
}

// Of many processes at once, one uses a grant for a single use, and one gets a rule for a single use.
func TestOnce(t *testing.T) {
	const processes = 24
	file := filepath.Join(t.TempDir(), "approvals.json")
	a := NewApprovals(file, time.Now)
	g, once := grant("once"), addition("once", "/w", "p.toml")
	g.Once, once.Once = true, true
	childtest.Must(t, a.Add(g))
	childtest.Must(t, a.AddRule(once))
	childtest.Must(t, a.AddRule(addition("always", "/w", "p.toml")))
	counts := countWords(t, processes, func(i int) *exec.Cmd {
		if i%2 == 0 {
			return approvalsChild(file, "take", "/w")
		}
		return approvalsChild(file, "use", g.Key)
	})
	if got, want := fmt.Sprint(counts), fmt.Sprint(map[string]int{"true": 1, "false": processes/2 - 1, "once": 1, "always": processes / 2}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// BenchmarkFind is what each call costs whose approval may be stored.
func BenchmarkFind(b *testing.B) {
	for _, grants := range []int{10, 1000} {
		b.Run(fmt.Sprint(grants), func(b *testing.B) {
			st, err := parseApprovals(nil)
			childtest.Must(b, err)
			for i := range grants {
				st.Grants = append(st.Grants, *grant(fmt.Sprint(i)))
			}
			a := NewApprovals(filepath.Join(b.TempDir(), "approvals.json"), time.Now)
			writeState(b, a.path, st)
			for b.Loop() {
				if g, err := a.Find(st.Grants[grants/2].Key); g == nil || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
