package landlock

import (
	"fmt"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Plan has the rulesets that enforce a session's policy, in the order in which Apply stacks them.
type Plan struct {
	ABI      int
	Rulesets []Ruleset
	Inner    Ruleset // of the command's own domain within the session's: see InnerArgs

	rulesets  []int     // the rulesets in the kernel, once prepared; the inner one is the last
	openFiles openFiles // the files with grants
}

// Ruleset is one Landlock ruleset: the kinds of access that it denies, and the grants among them.
type Ruleset struct {
	Authority policy.Authority
	FS        uint64 // kinds of file access that are denied without a grant
	Net       uint64 // kinds of network access
	Scoped    uint64
	Quiet     []string // folders where a denied connection to a unix socket leaves no event
	Grants    []Grant
	Ports     []Port
}

// Grant grants kinds of access on a file, or on a folder with everything beneath.
type Grant struct {
	Path     string // canonical
	Access   uint64
	Dir      bool         // a directory is there
	Optional bool         // left out when nothing is there
	Rule     *policy.Rule // nil if it has no single rule
	hidden   bool         // left out when it can't be opened
}

// Port grants kinds of access to a port of TCP, UDP or both.
type Port struct {
	Number uint16
	Access uint64
}

// quietFolders have the sockets of services that the C library tries first: denials there would hide the others.
var quietFolders = []string{"/run/nscd"}

// maxRulesets is how many domains can be nested (LANDLOCK_MAX_NUM_LAYERS). A nested session shares the limit.
const maxRulesets = 16

// NewPlan returns the rulesets for c on a kernel with that Landlock ABI. It includes rules that Report doesn't call enforced, as far as
// Landlock can enforce them: the caller has accepted that.
func NewPlan(c *policy.Compiled, abi int) (*Plan, error) {
	return planFor(c, abi, isRoot())
}

func planFor(c *policy.Compiled, abi int, root bool) (*Plan, error) {
	if abi < 1 {
		return nil, fmt.Errorf("no Landlock ABI %d", abi)
	}
	p := &Plan{ABI: min(abi, newestABI)}
	for _, l := range c.Layers {
		if l.Authority == policy.Builtin {
			continue
		}
		if restricts(l, policy.FS) || restricts(l, policy.Net) && p.ABI >= 4 {
			p.Rulesets = append(p.Rulesets, p.fileRuleset(l, c.Aliases, root))
		}
		if restricts(l, policy.Commands) {
			rs, err := p.commandRuleset(l)
			if err != nil {
				return nil, err
			}
			p.Rulesets = append(p.Rulesets, rs)
		}
	}
	p.addAlways(c)
	if n := len(p.Rulesets) + 1; n > maxRulesets {
		return nil, fmt.Errorf("%d Landlock rulesets are needed, and a process can have %d", n, maxRulesets)
	}
	return p, nil
}

// DropPorts removes the ports of the plan, if another mechanism decides on them.
func (p *Plan) DropPorts() {
	for i := range p.Rulesets {
		p.Rulesets[i].Net, p.Rulesets[i].Ports = 0, nil
	}
}

// fileRuleset returns a layer's ruleset for fs and net. A rule's grant adds to the grants of the folders above.
func (p *Plan) fileRuleset(l *policy.Layer, aliases []fspath.Alias, root bool) Ruleset {
	rs := p.baseRuleset(l.Authority)
	if restricts(l, policy.FS) {
		rs = Ruleset{Authority: l.Authority, FS: handledFS(p.ABI)}
		t := treeOf(l, aliases, root)
		for _, r := range t.order {
			access := rights(r.FS.Caps) & rs.FS
			if access == 0 || isOwnProc(r.FS.Path) || t.implied(r) {
				continue
			}
			if !r.FS.Dir && !r.FS.Missing {
				access &= fileRights
			}
			rs.Grants = append(rs.Grants, Grant{Path: r.FS.Path, Access: access, Dir: r.FS.Dir, Optional: r.FS.Optional || r.FS.Missing, Rule: r})
		}
	}
	if rs.FS&ll.AccessFSResolveUnix != 0 && p.ABI >= 10 {
		rs.Quiet = quietFolders
	}
	if restricts(l, policy.Net) && p.ABI >= 4 {
		rs.Net, rs.Ports = handledNet(p.ABI), portsOf(l.Net.Rules(), p.ABI)
	}
	return rs
}

// baseRuleset returns a ruleset that restricts no file access that a policy can grant: it denies only the creation of device nodes. REFER
// must be granted, since a ruleset that doesn't handle it denies it (LANDLOCK_ACCESS_FS_INITIALLY_DENIED).
func (p *Plan) baseRuleset(a policy.Authority) Ruleset {
	rs := Ruleset{Authority: a, FS: (ll.AccessFSMakeChar | ll.AccessFSMakeBlock | ll.AccessFSRefer) & handledFS(p.ABI)}
	return p.grantRefer(rs)
}

func (p *Plan) grantRefer(rs Ruleset) Ruleset {
	if p.ABI >= 2 {
		rs.Grants = append(rs.Grants, Grant{Path: "/", Access: ll.AccessFSRefer, Dir: true})
	}
	return rs
}

// commandRuleset returns a layer's ruleset for commands, which allows to execute only the listed programs and the programs that the kernel
// executes for them.
func (p *Plan) commandRuleset(l *policy.Layer) (Ruleset, error) {
	rs := Ruleset{Authority: l.Authority, FS: (ll.AccessFSExecute | ll.AccessFSRefer) & handledFS(p.ABI)}
	rs = p.grantRefer(rs)
	seen := map[string]bool{}
	add := func(path string, r *policy.Rule) {
		if !seen[path] {
			seen[path] = true
			rs.Grants = append(rs.Grants, Grant{Path: path, Access: ll.AccessFSExecute, Rule: r})
		}
	}
	for _, r := range l.Commands.Rules() {
		if r.Command.Program == "" {
			continue
		}
		in, err := inspect(r.Command.Program)
		if err != nil {
			return Ruleset{}, fmt.Errorf("%s: %s: %w", r.Position, r.ID, err)
		}
		add(r.Command.Program, r)
		for _, path := range in.all() {
			add(path, r)
		}
	}
	return rs, nil
}

// portsOf returns the ports that a layer's rules can match, as far as an ABI distinguishes them.
func portsOf(rules []*policy.Rule, abi int) []Port {
	var out []Port
	add := func(n uint16, access uint64) {
		i := slices.IndexFunc(out, func(p Port) bool { return p.Number == n })
		if i < 0 {
			i = len(out)
			out = append(out, Port{Number: n})
		}
		out[i].Access |= access
	}
	for _, r := range rules {
		access := accessOf(r.Net) & handledNet(abi)
		if access == 0 {
			continue
		}
		for _, n := range ports(r.Net) {
			add(n, access)
		}
		if access&ll.AccessNetConnectSendUDP != 0 {
			add(0, ll.AccessNetBindUDP) // the kernel binds a socket that sends, and checks that right too (current_check_autobind_udp_socket)
		}
	}
	return out
}

// accessOf returns the access that a rule grants on its ports.
func accessOf(n *policy.CompiledNet) uint64 {
	switch udp := isUDP(n); {
	case !n.Allow:
		return 0
	case udp && n.Listen:
		return ll.AccessNetBindUDP
	case udp:
		return ll.AccessNetConnectSendUDP
	case n.Listen:
		return ll.AccessNetBindTCP
	}
	return ll.AccessNetConnectTCP
}

// addAlways adds the restrictions of every session: no device nodes, no signals to other processes, no changes of control groups, and no
// connections to abstract unix sockets outside the session if fs or net is restricted.
func (p *Plan) addAlways(c *policy.Compiled) {
	if unrestricted(c) {
		p.Rulesets = append(p.Rulesets, p.allExcept(cgroupRoot))
	}
	first := &p.Rulesets[0]
	if p.ABI >= 6 {
		first.Scoped |= ll.ScopeSignal
		for _, l := range c.Layers {
			if restricts(l, policy.FS) || restricts(l, policy.Net) {
				first.Scoped |= ll.ScopeAbstractUnixSocket
			}
		}
	}
	first.FS |= ll.AccessFSMakeChar | ll.AccessFSMakeBlock
	// The inner ruleset denies nothing more, except signals to the outer domain.
	p.Inner = p.baseRuleset(policy.Builtin)
	p.Inner.Scoped = first.Scoped & ll.ScopeSignal
}
