package policyfile

import (
	"cmp"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Limits is a [limits] table; a missing key is zero.
type Limits struct {
	Memory    Size     `key:"memory" doc:"Memory of the whole session." like:"\"1GiB\""`
	Pids      Count    `key:"pids" doc:"Processes and threads of the whole session."`
	CPU       Percent  `key:"cpu" doc:"Share of one processor; 150% is one and a half." like:"\"150%\""`
	IO        Size     `key:"io" doc:"Bytes a second to and from each device." like:"\"50MiB\""`
	WallTime  Duration `key:"wall_time" doc:"How long the session may last." like:"\"10m\""`
	OpenFiles Count    `key:"open_files" doc:"Open files of each process."`
	FileSize  Size     `key:"file_size" doc:"Size of any file that a process writes." like:"\"100MiB\""`
}

// Size is a number of bytes: a number, or a string with a unit.
type Size policy.Bytes

func (v *Size) decode(d *decoder, n *tomltree.Node) {
	v.Position = d.position(n.Off)
	switch n.Kind {
	case tomltree.Integer:
		v.N = uint64(max(n.Int, 0))
	case tomltree.String:
		var hint string
		if v.N, hint = ParseSize(n.Text); v.N == 0 {
			d.fail(n.Off, hint, "%s must be a size, not %s", d.name(), tomltree.Quote(n.Text))
			return
		}
	default:
		d.wrong(n, "a size", `write it as "512MiB" or as a number of bytes`)
		return
	}
	d.positive(n, v.N)
}

func (d *decoder) positive(n *tomltree.Node, v uint64) {
	if v == 0 {
		d.fail(n.Off, "leave the key out for no limit", "%s must be greater than zero", d.name())
	}
}

var units = []struct {
	name string
	n    uint64
}{
	{"B", 1},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
}

// ParseSize reads "1.5GiB"; 0 means that it isn't a size, and hint has the reason.
func ParseSize(s string) (n uint64, hint string) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789."))
	unit := cmp.Or(strings.TrimSuffix(strings.TrimLeft(s[digits:], " "), "/s"), "B")
	for _, u := range units {
		if u.name == unit {
			n, ok := scale(s[:digits], u.n)
			if !ok {
				return 0, "it's too large, or not a number"
			}
			return n, `write it as "512MiB" or "1.5GiB"`
		}
	}
	if digits > 0 && len(unit) <= 3 {
		return 0, "the units are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024)"
	}
	return 0, `write it as "512MiB" or "1.5GiB"`
}

// scale multiplies a decimal number of at most three digits after the point by unit.
func scale(s string, unit uint64) (uint64, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	if len(frac) > 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+frac+"000"[len(frac):], 10, 64)
	if err != nil {
		return 0, false
	}
	hi, lo := bits.Mul64(n, unit)
	if hi >= 1000 {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, 1000)
	return q, q <= 1<<62
}

// Count is a number of things.
type Count policy.Count

func (v *Count) decode(d *decoder, n *tomltree.Node) {
	if v.Position = d.position(n.Off); n.Kind != tomltree.Integer {
		d.wrong(n, "a number", "")
		return
	}
	v.N = uint64(max(n.Int, 0))
	d.positive(n, v.N)
}

// Percent is a share: a string such as "150%".
type Percent policy.Percent

func (v *Percent) decode(d *decoder, n *tomltree.Node) {
	v.Position = d.position(n.Off)
	s, ok := strings.CutSuffix(n.Text, "%")
	p, err := strconv.ParseUint(s, 10, 32)
	if !ok || err != nil {
		d.wrong(n, "a share of one processor", `write it as "150%"`)
		return
	}
	v.N = p
	d.positive(n, p)
}

// Duration is a span of time: a string such as "1h30m".
type Duration policy.Span

func (v *Duration) decode(d *decoder, n *tomltree.Node) {
	v.Position = d.position(n.Off)
	span, err := time.ParseDuration(n.Text)
	if n.Kind != tomltree.String || err != nil {
		d.wrong(n, "a duration", `write it as "90s", "10m" or "1h30m"`)
		return
	}
	v.D = span
	d.positive(n, uint64(max(span, 0)))
}

// over merges l into the limits of an authority: the later value wins.
func (l *Limits) over(m *policy.Limits) {
	set(l.Memory.N > 0, &m.Memory, policy.Bytes(l.Memory))
	set(l.Pids.N > 0, &m.Pids, policy.Count(l.Pids))
	set(l.CPU.N > 0, &m.CPU, policy.Percent(l.CPU))
	set(l.IO.N > 0, &m.IO, policy.Bytes(l.IO))
	set(l.WallTime.D > 0, &m.WallTime, policy.Span(l.WallTime))
	set(l.OpenFiles.N > 0, &m.OpenFiles, policy.Count(l.OpenFiles))
	set(l.FileSize.N > 0, &m.FileSize, policy.Bytes(l.FileSize))
}

func set[T any](given bool, to *T, from T) {
	if given {
		*to = from
	}
}

// smaller is the lesser of two limits, where zero is none.
func smaller[T any](a, b T, n func(T) uint64) T {
	if n(a) == 0 || n(b) != 0 && n(b) < n(a) {
		return b
	}
	return a
}

// restrict returns the smaller value of each limit.
func restrict(a, b policy.Limits) policy.Limits {
	bytes := func(v policy.Bytes) uint64 { return v.N }
	count := func(v policy.Count) uint64 { return v.N }
	return policy.Limits{
		Memory:    smaller(a.Memory, b.Memory, bytes),
		Pids:      smaller(a.Pids, b.Pids, count),
		CPU:       smaller(a.CPU, b.CPU, func(v policy.Percent) uint64 { return v.N }),
		IO:        smaller(a.IO, b.IO, bytes),
		WallTime:  smaller(a.WallTime, b.WallTime, func(v policy.Span) uint64 { return uint64(v.D) }),
		OpenFiles: smaller(a.OpenFiles, b.OpenFiles, count),
		FileSize:  smaller(a.FileSize, b.FileSize, bytes),
	}
}

// parseLimits reads the limits of a command line: "memory=1GiB,pids=64".
func parseLimits(s string) (policy.Limits, policy.Errors) {
	var out policy.Limits
	if s == "" {
		return out, nil
	}
	root := &tomltree.Node{}
	d := newDecoder("--limits", []byte(s))
	off := 0
	for entry := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(entry, "=")
		key = strings.TrimSpace(key)
		switch {
		case !ok:
			d.fail(off, "write KEY=VALUE, separated by commas", "%s has no value", tomltree.Quote(entry))
		case root.Get(key) != nil:
			d.fail(off, "", "key %s is given twice", tomltree.Quote(key))
		default:
			root.Add(key, off, wordNode(strings.TrimSpace(value), off+len(entry)-len(value)))
		}
		off += len(entry) + 1
	}
	var l Limits
	d.decode(root, &l)
	l.over(&out)
	return out, d.mistakes()
}

// wordNode is a value of the command line: a number where it looks like one.
func wordNode(s string, off int) *tomltree.Node {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return &tomltree.Node{Kind: tomltree.Integer, Int: n, Off: off}
	}
	return &tomltree.Node{Kind: tomltree.String, Text: s, Off: off}
}
