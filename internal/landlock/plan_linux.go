package landlock

import (
	"fmt"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Plan is the rulesets that hold a session to its policy, in the order in which Apply stacks them.
type Plan struct {
	ABI      int
	Rulesets []Ruleset
	Inner    Ruleset // of the command's own domain within the session's: see InnerArgs

	built  []int  // the rulesets in the kernel, once prepared; the inner one is the last
	opened opened // what they grant
}

// Ruleset is one Landlock ruleset: what it forbids, and what of it it grants.
type Ruleset struct {
	Authority policy.Authority
	FS        uint64 // kinds of file access that are forbidden where no grant gives them
	Net       uint64 // kinds of network access
	Scoped    uint64
	Quiet     []string // folders where a denied connection to a unix socket leaves no event
	Grants    []Grant
	Ports     []Port
}

// Grant gives kinds of access on a file, or on a folder with all beneath it.
type Grant struct {
	Path     string // canonical
	Access   uint64
	Dir      bool         // a directory is there
	Optional bool         // left out when nothing is there
	Rule     *policy.Rule // nil for what no single rule gives
}

// Port gives kinds of access to a port, of TCP, UDP or both.
type Port struct {
	Number uint16
	Access uint64
}

// probed are the folders of services that the C library asks before it does the work itself: denials there would bury the others.
var probed = []string{"/run/nscd"}

// maxRulesets is how many domains a thread can be under (LANDLOCK_MAX_NUM_LAYERS); a session in a session shares them.
const maxRulesets = 16

// NewPlan makes the rulesets for c on a kernel with that Landlock ABI. Rules that Report doesn't call enforced
// are still planned as far as they go: whether that is far enough has been decided by then.
func NewPlan(c *policy.Compiled, abi int) (*Plan, error) {
	return planFor(c, abi, isRoot())
}

func planFor(c *policy.Compiled, abi int, root bool) (*Plan, error) {
	if abi < 1 {
		return nil, fmt.Errorf("no Landlock ABI %d", abi)
	}
	p := &Plan{ABI: min(abi, newest)}
	for _, l := range c.Layers {
		if l.Authority == policy.Builtin {
			continue
		}
		if restricts(l, policy.FS) || restricts(l, policy.Net) && p.ABI >= 4 {
			p.Rulesets = append(p.Rulesets, p.files(l, c.Aliases, root))
		}
		if restricts(l, policy.Commands) {
			rs, err := p.programs(l)
			if err != nil {
				return nil, err
			}
			p.Rulesets = append(p.Rulesets, rs)
		}
	}
	p.always(c)
	if n := len(p.Rulesets) + 1; n > maxRulesets {
		return nil, fmt.Errorf("%d Landlock rulesets are needed, and a process can have %d", n, maxRulesets)
	}
	return p, nil
}

// LeavePorts removes the ports of the plan: another mechanism decides on them.
func (p *Plan) LeavePorts() {
	for i := range p.Rulesets {
		p.Rulesets[i].Net, p.Rulesets[i].Ports = 0, nil
	}
}

// files is a layer's ruleset for fs and net. Each rule's grant stands alone; what a rule above grants holds as well.
func (p *Plan) files(l *policy.Layer, aliases []fspath.Alias, root bool) Ruleset {
	rs := p.base(l.Authority)
	if restricts(l, policy.FS) {
		rs = Ruleset{Authority: l.Authority, FS: handled(p.ABI)}
		t := treeOf(l, aliases, root)
		for _, r := range t.order {
			access := rights(r.FS.Caps) & rs.FS
			if access == 0 || own(r.FS.Path) || t.implied(r) {
				continue
			}
			if !r.FS.Dir && !r.FS.Missing {
				access &= onFiles
			}
			rs.Grants = append(rs.Grants, Grant{r.FS.Path, access, r.FS.Dir, r.FS.Optional || r.FS.Missing, r})
		}
	}
	if rs.FS&ll.AccessFSResolveUnix != 0 && p.ABI >= 10 {
		rs.Quiet = probed
	}
	if restricts(l, policy.Net) && p.ABI >= 4 {
		rs.Net, rs.Ports = handledNet(p.ABI), portsOf(l.Net.Rules(), p.ABI)
	}
	return rs
}

// base is a ruleset that restricts no file access that a policy can grant: only device nodes can't be made. REFER must be
// granted, since a ruleset that doesn't handle it forbids it (LANDLOCK_ACCESS_FS_INITIALLY_DENIED).
func (p *Plan) base(a policy.Authority) Ruleset {
	rs := Ruleset{Authority: a, FS: (ll.AccessFSMakeChar | ll.AccessFSMakeBlock | ll.AccessFSRefer) & handled(p.ABI)}
	return p.grantRefer(rs)
}

func (p *Plan) grantRefer(rs Ruleset) Ruleset {
	if p.ABI >= 2 {
		rs.Grants = append(rs.Grants, Grant{Path: "/", Access: ll.AccessFSRefer, Dir: true})
	}
	return rs
}

// programs is a layer's ruleset for commands: only the programs that it lists, with what the kernel executes to run them,
// can be executed.
func (p *Plan) programs(l *policy.Layer) (Ruleset, error) {
	rs := Ruleset{Authority: l.Authority, FS: (ll.AccessFSExecute | ll.AccessFSRefer) & handled(p.ABI)}
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

// portsOf is the ports that a layer's rules can match, as far as an ABI distinguishes them.
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
			add(0, ll.AccessNetBindUDP) // the kernel binds a socket that sends, and asks for that, too (current_check_autobind_udp_socket)
		}
	}
	return out
}

// accessOf is what a rule grants on its ports.
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

// always adds what holds for every session: no device nodes, no signals beyond the session, no abstract unix sockets
// beyond it where fs or net is restricted, and no changes of control groups.
func (p *Plan) always(c *policy.Compiled) {
	if unrestricted(c) {
		p.Rulesets = append(p.Rulesets, p.sparing(groups))
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
	// What the inner one forbids is forbidden already, but for signals to the domain around it.
	p.Inner = p.base(policy.Builtin)
	p.Inner.Scoped = first.Scoped & ll.ScopeSignal
}
