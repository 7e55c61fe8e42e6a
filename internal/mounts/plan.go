package mounts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Mode is what a mount leaves of the capabilities on a path.
type Mode uint8

// The modes, the strictest first.
const (
	Hidden    Mode = iota // nothing: a folder is empty, a file can't be opened
	ReadOnly              // read and execute
	ReadWrite             // everything
)

func (m Mode) String() string { return [...]string{"hidden", "read-only", "read-write"}[m] }

// caps returns the capabilities that a mode leaves.
func (m Mode) caps() policy.Caps {
	return [...]policy.Caps{0, policy.Read | policy.Execute, policy.AllCaps}[m]
}

// Mount is one mount of a session.
type Mount struct {
	Path string // canonical
	Mode Mode
	Dir  bool
	Open bool // of a Hidden folder: it can be passed through, to mounts beneath it and to paths that a rule grants once they exist

	Inode Inode // what was at Path when the plan was made, unless the mode is Hidden: see Verify
}

type mountJSON struct {
	Path  []byte
	Mode  Mode
	Dir   bool
	Open  bool
	Inode Inode `json:",omitzero"`
}

// MarshalJSON keeps the bytes of a path that isn't UTF-8.
func (m Mount) MarshalJSON() ([]byte, error) {
	return json.Marshal(mountJSON{[]byte(m.Path), m.Mode, m.Dir, m.Open, m.Inode})
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (m *Mount) UnmarshalJSON(text []byte) error {
	var j mountJSON
	err := json.Unmarshal(text, &j)
	*m = Mount{string(j.Path), j.Mode, j.Dir, j.Open, j.Inode}
	return err
}

// Dev is what /dev is in a session.
type Dev uint8

// The kinds of /dev.
const (
	PrivateDev   Dev = iota // a new one with the standard devices and private terminals
	TerminalsDev            // the same with this machine's /dev/pts: the policy grants a terminal by its name
	HostDev                 // this machine's, with a private /dev/shm: the policy grants other devices
	SharedDev               // this machine's: the policy grants /dev/shm too
)

// Plan is what the mount namespace of a session consists of. /proc is always new.
type Plan struct {
	Mounts     []Mount // the first is of "/"; a mount comes after those above it
	PrivateTmp bool    // /tmp is a new file system
	Dev        Dev
	Network    bool // the policy grants some network access
	WritesRoot bool // the policy grants writing in "/" and everything beneath it that has no mount

	c       *policy.Compiled
	excess  []excess
	lost    []lost
	blocked []blocked
	sockets []string // the unix sockets that rules name
	trees   []hierarchy
	modes   map[string]Mode // of the mounts
	found   map[finding]*search
	linked  map[*policy.Rule]*linked
}

// excess is what the mounts and Landlock permit on a path, and the policy denies.
type excess struct {
	path string
	caps policy.Caps
	why  string
}

// lost is what the policy grants on a path, and the mounts deny.
type lost struct {
	path string
	caps policy.Caps
}

// blocked is a path on which the program can't do what the plan asks for.
type blocked struct{ path, why string }

// Options are settings of a plan that don't come from the policy.
type Options struct {
	Visible  []string // canonical paths of folders that must exist in the session, such as the working directory
	OpenRoot bool     // the program can't make the whole file system read-only: every path that needs it has a mount of its own
	NoHoles  bool     // the program can't mount anything in a hidden folder
}

// New returns the plan for c. It searches the granted trees for entries that patterns match.
func New(c *policy.Compiled, files Files, o Options) (*Plan, error) {
	b := newBuilder(c, files, o)
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.plan(), nil
}

// Reject notes the mounts that the program can't make, for the report: why returns the reason, or "".
func (p *Plan) Reject(why func(Mount) string) {
	for _, m := range p.Mounts {
		if text := why(m); text != "" {
			p.blocked = append(p.blocked, blocked{m.Path, text})
		}
	}
}

// Mode returns the mode of the mount that a path is in.
func (p *Plan) Mode(path string) Mode {
	for {
		if m, ok := p.modes[path]; ok {
			return m
		}
		path = parent(path)
	}
}

// plan returns the plan of a builder that has finished.
func (b *builder) plan() *Plan {
	p := &Plan{
		PrivateTmp: b.privateTmp, Dev: devOf(b.c), Network: grantsNetwork(b.c), WritesRoot: b.c.Caps("/")&policy.Write != 0,
		c: b.c, excess: b.excess, lost: b.lost, blocked: b.blocked, sockets: b.sockets, found: b.found, trees: b.trees, modes: map[string]Mode{}, linked: b.searchLinks(),
	}
	for _, m := range b.mounts {
		if m.Mode != Hidden {
			m.Inode, _, _ = b.files.Inode(m.Path) // an error leaves none, and Verify fails
		}
		p.Mounts = append(p.Mounts, *m)
		p.modes[m.Path] = m.Mode
	}
	slices.SortFunc(p.Mounts, func(x, y Mount) int {
		return cmp.Or(cmp.Compare(fspath.Depth(x.Path), fspath.Depth(y.Path)), cmp.Compare(x.Path, y.Path))
	})
	return p
}

// grantsNetwork reports whether no layer denies all network access.
func grantsNetwork(c *policy.Compiled) bool {
	for _, l := range c.Layers {
		if l.Authority != policy.Builtin && l.Defaults[policy.Net] == policy.Deny &&
			!slices.ContainsFunc(l.Net.Rules(), func(r *policy.Rule) bool { return r.Net.Allow }) {
			return false
		}
	}
	return true
}

// standardDevices are the entries of a private /dev.
var standardDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

func devOf(c *policy.Compiled) Dev {
	if c.Caps("/dev/shm") != 0 {
		return SharedDev
	}
	kind := PrivateDev
	for _, r := range c.Rules {
		switch {
		case r.FS == nil || r.FS.Last != "" || r.FS.Caps == 0 || r.FS.Missing || slices.Contains(standardDevices, r.FS.Path):
		case r.FS.Path != "/dev/pts" && fspath.Within(r.FS.Path, "/dev/pts"):
			kind = max(kind, TerminalsDev)
		case fspath.Within(r.FS.Path, "/dev"):
			kind = HostDev
		}
	}
	if c.Caps("/dev") != 0 {
		kind = HostDev
	}
	return kind
}

// tooMany is the error for a plan with more mounts than any wrapper can make.
func tooMany(n int) error {
	return fmt.Errorf("the policy takes %d mounts on this machine, and at most %d are supported", n, MaxMounts)
}
