package seatbelt

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// capability is a capability with the operations that need it.
type capability struct {
	caps   policy.Caps
	needed []string
	excess []string // not granting these is no fault
}

var capabilities = []capability{
	{caps: policy.Read, needed: []string{"file-read-data", "file-read-xattr"}},
	{caps: policy.Create, needed: []string{"file-write-create"}, excess: []string{"file-mknod"}},
	{
		caps:   policy.Update,
		needed: []string{"file-write-data", "file-write-mode", "file-write-flags", "file-write-times", "file-write-xattr", "file-write-acl", "file-write-owner"},
		excess: []string{"file-write-setugid"},
	},
	{caps: policy.Delete, needed: []string{"file-write-unlink"}},
	{caps: policy.Execute, needed: []string{"process-exec", "file-map-executable"}, excess: []string{"process-exec-interpreter"}},
}

// fault is a difference between profile and policy.
type fault struct {
	what   string
	excess bool // the profile allows what the policy denies
}

func (f fault) String() string {
	if f.excess {
		return f.what + ": the profile allows, the policy doesn't"
	}
	return f.what + ": the policy allows, the profile doesn't"
}

// judge compares two answers.
type judge struct {
	*world
	model    sbpltest.Model
	faults   []fault
	compared int
	excused  int // differences that the report states
}

// bounds are the answers that a profile may give: everything from least to most. They differ only for another spelling.
type bounds struct{ least, most bool }

func exactly(allowed bool) bounds { return bounds{allowed, allowed} }

// spelling chooses one of a name's paths.
type spelling func(name) string

// bounds asks the policy about both spellings of names. They're one file on a volume that ignores case, and else two: what the policy denies
// for the spelling that it knows is denied for others.
func (j *judge) bounds(ask func(spelling) bool) bounds {
	known := ask(func(n name) string { return n.other })
	given := ask(func(n name) string { return n.path })
	return bounds{known && given, known && (given || j.model.FoldPaths || j.model.FoldRegex)}
}

// differs records a difference, unless the report states it for one of the rules.
func (j *judge) differs(profile bool, policy bounds, rules func() []string, format string, args ...any) {
	j.compared++
	switch excess := profile && !policy.most; {
	case !excess && (profile || !policy.least):
	case j.reported(excess, rules()):
		j.excused++
	default:
		j.faults = append(j.faults, fault{fmt.Sprintf(format, args...), excess})
	}
}

// reported reports whether the report states the difference: a rule that decides isn't enforced, or the profile is stricter because of one
// that decides or is near.
func (j *judge) reported(excess bool, rules []string) bool {
	return slices.ContainsFunc(rules, func(id string) bool {
		id, near := strings.CutPrefix(id, "near ")
		row, ok := j.rows[id]
		return ok && !(near && excess) && (row.Status != policy.Enforced || !excess && row.Stricter)
	})
}

// deciding returns the rules that decide at a path, of all layers.
func (j *judge) deciding(p string) (ids []string) {
	add := func(r *policy.Rule) {
		if r != nil {
			ids = append(ids, r.ID)
		}
	}
	for _, l := range j.policy.Layers {
		add(l.FS.Deciding(p))
		add(l.Protect.Deciding(p))
		add(l.Secrets.Deciding(p))
	}
	return ids
}

// name is a path in a question: the same file may have another spelling.
type name struct {
	path  string // canonical
	other string // the spelling that the policy knows, where path is in another case; else path
	kind  string
}

func (n name) target() sbpltest.Target { return sbpltest.Target{Path: n.path, Type: n.kind} }

// rules returns the rules that decide on names, and those about which the report may state that the profile is stricter there.
func (j *judge) rules(names ...name) func() []string {
	return func() (ids []string) {
		for _, n := range names {
			ids = append(ids, j.rulesOf(n)...)
		}
		return ids
	}
}

func (j *judge) rulesOf(n name) []string {
	ids := append(j.deciding(n.path), j.deciding(n.other)...)
	for _, r := range j.policy.Rules {
		if r.FS != nil && concerns(r.FS, n.other) {
			ids = append(ids, "near "+r.ID)
		}
	}
	return ids
}

// unenforced returns the rules about files that the report says aren't enforced: a move could gain by each of them.
func (j *judge) unenforced() (ids []string) {
	for _, r := range j.policy.Rules {
		if row, ok := j.rows[r.ID]; ok && r.FS != nil && row.Status != policy.Enforced {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// concerns reports whether a path is above a rule, or has a component that a pattern begins with.
func concerns(fs *policy.CompiledFS, p string) bool {
	if fspath.Within(fs.Path, p) || strings.Contains(fs.Written, "\u00e9") { // for whose spellings a profile has wider expressions
		return true
	}
	prefix, isPrefix := strings.CutSuffix(fs.Last, "*")
	suffix, isSuffix := strings.CutPrefix(fs.Last, "*")
	return fs.Last != "" && slices.ContainsFunc(strings.Split(p, "/"), func(c string) bool {
		return c == fs.Last || isPrefix && strings.HasPrefix(c, prefix) || isSuffix && strings.HasSuffix(c, suffix)
	})
}

func (j *judge) allows(op string, t sbpltest.Target) bool { return j.profile.Allows(j.model, op, t) }

// can returns whether the policy allows a capability on a name.
func (j *judge) can(n name, want policy.Caps) bounds {
	return j.bounds(func(s spelling) bool { return j.policy.Caps(s(n))&want == want })
}

// inBase reports whether a profile without grants allows an operation.
func (j *judge) inBase(op string, t sbpltest.Target) bool { return j.base.Allows(j.model, op, t) }

// file compares every capability on a name.
func (j *judge) file(n name) {
	for _, c := range capabilities {
		rules := j.rules(n)
		for _, op := range slices.Concat(c.needed, c.excess) {
			allowed := j.can(n, c.caps)
			if op == "process-exec" { // not its interpreter, or what it maps
				allowed, rules = j.execute(n)
			}
			allowed.most = allowed.most || j.inBase(op, n.target())
			allowed.least = allowed.least && slices.Contains(c.needed, op)
			j.differs(j.allows(op, n.target()), allowed, rules, "%s %+v", op, n)
		}
	}
	j.metadata(n)
	j.socket(n)
}

// execute asks whether the policy allows a program to be executed.
func (j *judge) execute(n name) (bounds, func() []string) {
	var commands []string
	allowed := j.bounds(func(s spelling) bool {
		v := j.policy.CheckCommand(s(n), []string{path.Base(s(n))})
		if v.Rule >= 0 {
			commands = append(commands, j.policy.Rules[v.Rule].ID)
		}
		return v.Allow && j.policy.Caps(s(n))&policy.Execute != 0
	})
	return allowed, func() []string { return append(commands, j.rulesOf(n)...) }
}

// metadata is visible, also above what may be read.
func (j *judge) metadata(n name) {
	if !j.can(n, policy.Read).least {
		return
	}
	for p := n.path; ; p = path.Dir(p) {
		at := sbpltest.Target{Path: p, Type: "DIRECTORY"}
		j.differs(j.allows("file-read-metadata", at) && j.allows("file-test-existence", at), exactly(true), j.rules(n), "metadata of %s for %+v", p, n)
		if p == "/" {
			return
		}
	}
}

// socket compares connecting to a unix socket, and binding one.
func (j *judge) socket(n name) {
	at := sbpltest.Target{Path: n.path, Type: "SOCKET"}
	update := j.can(n, policy.Update)
	update.most = update.most || j.inBase("network-outbound", at)
	j.differs(j.allows("network-outbound", at), update, j.rules(n), "connect to the socket %+v", n)
	at.Type = ""
	j.differs(j.allows("network-bind", at), j.can(n, policy.Create), j.rules(n), "bind the socket %+v", n)
}

// move compares renaming and linking.
func (j *judge) move(old, new name) {
	inside := strings.HasPrefix(new.path, old.path+"/") || strings.HasPrefix(old.path, new.path+"/")
	dir, onto := old.kind == "DIRECTORY", new.kind == "DIRECTORY"
	if old.kind == "" || old.path == new.path || inside || old.path == "/" || new.path == "/" || new.kind != "" && (dir || onto) {
		return // the kernel's own errors, or a new folder that isn't empty
	}
	rules := func() []string { return append(j.rules(old, new)(), j.unenforced()...) }
	got := j.profile.Rename(j.model, old.target(), new.target())
	allowed := j.bounds(func(s spelling) bool {
		m := policy.Move{Old: s(old), New: s(new), OldDir: dir, NewExists: new.kind != ""}
		if m.NewExists && j.policy.Caps(m.New)&policy.Delete != 0 {
			m.NewExists = false // it's removed first
		}
		v := j.policy.CheckRename(m)
		return v.Allow || got && v.Reason == policy.NoGain && !j.gains(m)
	})
	if new.kind != "" {
		allowed.least = allowed.least && j.can(new, policy.Delete).least // the profile's operations are those of removing it first
	}
	j.differs(got, allowed, rules, "rename %+v to %+v", old, new)
	if !dir && new.kind == "" {
		allowed := j.bounds(func(s spelling) bool { return j.policy.CheckLink(policy.Move{Old: s(old), New: s(new)}).Allow })
		allowed.least = false // where a new file may have more capabilities, there are no links
		j.differs(j.profile.Link(j.model, old.target(), new.target()), allowed, rules, "link %+v to %+v", old, new)
		copied := j.bounds(func(s spelling) bool {
			return j.policy.Caps(s(old))&policy.Read != 0 && j.policy.Caps(s(new))&policy.Create != 0
		})
		j.differs(j.profile.Clone(j.model, old.target(), new.target()), bounds{most: copied.most}, rules, "clone %+v to %+v", old, new)
	}
}

// gains reports whether what is renamed could be read at its new name alone, or whether a folder could bring what mustn't
// be made at its new name. The policy denies more: it compares rules, and not what they say together, and doesn't know that a profile
// applies patterns also elsewhere. [darwin.StatedGaps] has the difference.
func (j *judge) gains(m policy.Move) bool {
	old, new := m.Old, m.New
	if j.exempt(old) || j.exempt(new) {
		return false
	}
	if !m.OldDir {
		return j.policy.Caps(old)&policy.Read == 0
	}
	rests := []string{"", "/c"}
	for _, r := range j.policy.Rules {
		switch {
		case r.FS == nil:
		case r.FS.Last != "":
			for _, last := range []string{strings.ReplaceAll(r.FS.Last, "*", ""), strings.ReplaceAll(r.FS.Last, "*", "c")} {
				p := "/" + path.Join(append([]string{last}, r.FS.Names...)...)
				rests = append(rests, p, "/c"+p, p+"/c", "/"+last)
			}
		default:
			for _, dir := range []string{old, new} {
				if fspath.Within(r.FS.Path, dir) {
					p := fspath.Beneath(r.FS.Path, dir)
					rests = append(rests, p, p+"/c")
				}
			}
		}
	}
	return slices.ContainsFunc(rests, func(rest string) bool {
		from, to := j.policy.Caps(old+rest), j.policy.Caps(new+rest)
		revealed := from&policy.Read == 0 && j.granted(new+rest)&^from&policy.Read != 0
		return revealed || to&policy.Create == 0 && j.granted(old+rest)&policy.Create != 0
	})
}

// exempt reports whether a rule exempts a path from protect or secrets: what a folder that is moved there, or from there, has in it isn't decided on.
func (j *judge) exempt(p string) bool {
	return slices.ContainsFunc(j.policy.Layers, func(l *policy.Layer) bool {
		r := l.FS.Deciding(p)
		return r != nil && (r.FS.Unprotect || r.FS.Secret)
	})
}

// granted returns the capabilities of which the profile grants a part on a file.
func (j *judge) granted(p string) (caps policy.Caps) {
	for _, c := range capabilities {
		for _, op := range c.needed {
			if at := (sbpltest.Target{Path: p, Type: "REGULAR-FILE"}); j.allows(op, at) && !j.inBase(op, at) {
				caps |= c.caps
			}
		}
	}
	return caps
}

// address compares a connection to an address, or listening on it, without a known scheme.
func (j *judge) address(protocol string, addr netip.AddrPort, listen bool) {
	t := netname.Target{Protocol: protocol, Addr: addr.Addr(), Port: addr.Port(), Listen: listen}
	t.Addr = t.Dest()
	at := sbpltest.Target{Protocol: protocol, Addr: addr}
	allowed := exactly(j.policy.CheckNet(&t).Allow)
	for _, same := range netname.Loopback {
		if other := t; t.Addr.IsLoopback() {
			other.Addr = same
			allowed.least = allowed.least && j.policy.CheckNet(&other).Allow // what one address of loopback is denied, all are
		}
	}
	rules := func() []string { return j.netRules(&t) }
	if listen {
		for _, same := range netname.Loopback {
			if other := t; t.Addr.IsUnspecified() || t.Addr.IsLoopback() {
				other.Addr = same
				allowed.most = allowed.most || j.policy.CheckNet(&other).Allow // localhost is all of these, and 0.0.0.0
			}
		}
		j.differs(j.allows("network-bind", at), allowed, rules, "bind %s %s", protocol, addr)
		j.differs(j.allows("network-inbound", at), allowed, rules, "accept on %s %s", protocol, addr)
		return
	}
	if j.egress != 0 && protocol == "tcp" && int(addr.Port()) == j.egress && t.Addr.IsLoopback() {
		allowed = bounds{most: true, least: j.needsEgress() && t.Addr != netip.MustParseAddr("127.0.0.2")}
	}
	j.differs(j.allows("network-outbound", at), allowed, rules, "connect to %s %s", protocol, addr)
}

// netRules returns the rules that decide on a target, and all others about the network.
func (j *judge) netRules(t *netname.Target) (ids []string) {
	for _, l := range j.policy.Layers {
		if l.Net == nil {
			continue
		}
		if r := l.Net.Find(t); r != nil && !strings.Contains(j.rows[r.ID].Why, "0.0.0.0") {
			ids = append(ids, r.ID)
		}
		for _, r := range l.Net.Rules() {
			switch row := j.rows[r.ID]; {
			case row.Status == policy.Enforced && !(row.Stricter && l.Defaults[policy.Net] == policy.Allow):
			case row.Status == policy.Enforced:
				ids = append(ids, "near "+r.ID)
			case strings.Contains(row.Why, "0.0.0.0"): // that alone isn't enforced, which address knows
			case t.Addr.IsLoopback():
				ids = append(ids, r.ID) // it may be about another address of loopback, which is the same to the profile
			default:
				ids = append(ids, "near "+r.ID)
			}
		}
	}
	return ids
}

// needsEgress reports whether the policy grants a host by its name, for which egress is needed.
func (j *judge) needsEgress() bool {
	return slices.ContainsFunc(j.policy.Rules, func(r *policy.Rule) bool {
		if r.Net == nil || r.Net.Name == "" || r.Net.Name == "localhost" || r.Net.Listen || r.Net.Proto != "tcp" || j.rows[r.ID].Status != policy.Enforced {
			return false
		}
		t := netname.Target{Scheme: cmp.Or(r.Net.Scheme, "https"), Host: r.Net.Name, Port: uint16(r.Net.Port), Protocol: "tcp"}
		t.Port = cmp.Or(t.Port, netname.DefaultPort(t.Scheme))
		return j.policy.CheckNet(&t).Allow
	})
}

// describe returns the policy and the profile, for a failure.
func (w *world) describe() string {
	var b strings.Builder
	for _, l := range w.policy.Layers {
		if l.Authority != policy.Builtin {
			fmt.Fprintf(&b, "%s: defaults %v\n", l.Authority, l.Defaults)
		}
	}
	for _, r := range w.policy.Rules {
		row := w.rows[r.ID]
		fmt.Fprintf(&b, "%s %s: %s %s (stricter %v)\n", r.ID, explain.RuleText(r), row.Status, row.Why, row.Stricter)
	}
	return b.String() + w.text
}
