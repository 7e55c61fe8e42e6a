package sbpltest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// filterKind is a set of kinds of filters.
type filterKind uint

const (
	onPath filterKind = 1 << iota
	onNetwork
	onMach
	onSysctl
	onProcess
	onPosixName
	onSocket
	onIOKit
	onPreference
	onNothing filterKind = 0
)

// filter is a condition of a rule.
type filter struct {
	head  string
	value string
	re    *pattern
	of    []filter // of require-all, require-any, require-not, and the path of a unix socket
	addr  address
}

// address is what remote or local names.
type address struct {
	protocol  string // "ip", "tcp", "udp" or "unix-socket"
	localhost bool
	port      uint16 // 0: any
}

// strings that a filter may have, and what it applies to.
var stringFilters = map[string]filterKind{
	"literal": onPath | onNetwork, "subpath": onPath | onNetwork, "regex": onPath | onNetwork,
	"global-name": onMach, "local-name": onMach, "sysctl-name": onSysctl, "sysctl-name-prefix": onSysctl, "ipc-posix-name": onPosixName,
	"iokit-user-client-class": onIOKit, "iokit-registry-entry-class": onIOKit, "iokit-connection": onIOKit,
	"preference-domain": onPreference,
}

// words that a filter may have, and what it applies to.
var wordFilters = map[string]struct {
	on    filterKind
	words string
}{
	"vnode-type":      {onPath, "REGULAR-FILE DIRECTORY SYMLINK SOCKET FIFO CHARACTER-DEVICE BLOCK-DEVICE TTY"},
	"ioctl-command":   {onPath, "TIOCSTI TIOCGETA TIOCSETA TIOCSETAW TIOCSETAF TIOCGWINSZ"}, // with macOS 13
	"target":          {onProcess, "self same-sandbox others children pgrp"},
	"socket-domain":   {onSocket, "AF_UNIX AF_INET AF_INET6 AF_SYSTEM AF_ROUTE"},
	"socket-type":     {onSocket, "SOCK_STREAM SOCK_DGRAM SOCK_RAW"},
	"socket-protocol": {onSocket, "0 1 2 6 17"},
}

// appliesTo reports whether filters of a kind apply to operations of every kind in on.
func (k filterKind) appliesTo(on []filterKind) bool {
	return !slices.ContainsFunc(on, func(o filterKind) bool { return o&k == 0 })
}

// filters reads the filters of a rule for operations of the kinds on.
func (p *parser) filters(e *expr, on []filterKind) ([]filter, error) {
	f := filter{head: e.head()}
	if w, ok := wordFilters[f.head]; ok {
		return p.words(e, w.on.appliesTo(on), strings.Fields(w.words))
	}
	if of, ok := stringFilters[f.head]; ok {
		if !of.appliesTo(on) {
			return nil, fmt.Errorf("the filter %s doesn't apply to the operation", f.head)
		}
		return p.strings(e)
	}
	switch f.head {
	case "require-all", "require-any", "require-not":
		for i := range e.args() {
			of, err := p.filters(&e.args()[i], on)
			if err != nil {
				return nil, err
			}
			if len(of) > 1 {
				of = []filter{{head: "require-any", of: of}}
			}
			f.of = append(f.of, of...)
		}
		if len(f.of) == 0 || f.head == "require-not" && len(f.of) != 1 {
			return nil, fmt.Errorf("%s with %d filters", f.head, len(f.of))
		}
		return []filter{f}, nil
	case "remote", "local":
		if !onNetwork.appliesTo(on) {
			return nil, fmt.Errorf("the filter %s doesn't apply to the operation", f.head)
		}
		return []filter{f}, p.address(e, &f)
	case "":
		return nil, errors.New("illegal argument: a filter is a list with a name")
	}
	return nil, fmt.Errorf("unbound variable: %s", f.head)
}

func (p *parser) words(e *expr, applies bool, known []string) (all []filter, err error) {
	if !applies || len(e.args()) == 0 {
		return nil, fmt.Errorf("the filter %s doesn't apply to the operation, or has no argument", e.head())
	}
	for _, a := range e.args() {
		if a.kind != symbol || !slices.Contains(known, a.text) {
			return nil, fmt.Errorf("unbound variable: %s of %s", a.text, e.head())
		}
		all = append(all, filter{head: e.head(), value: a.text})
	}
	return all, nil
}

func (p *parser) strings(e *expr) (all []filter, err error) {
	if len(e.args()) == 0 {
		return nil, fmt.Errorf("%s without an argument", e.head())
	}
	for i := range e.args() {
		a, f := &e.args()[i], filter{head: e.head()}
		if a.kind == expression {
			if f.head != "regex" {
				return nil, fmt.Errorf("a regular expression for %s", f.head)
			}
			f.value = a.text
		} else if f.value, err = p.text(a); err != nil {
			return nil, err
		}
		switch f.head {
		case "regex":
			f.re, err = p.regex(f.value)
		case "literal", "subpath":
			err = checkPath(f.value)
		default:
			if f.value == "" {
				err = fmt.Errorf("%s with an empty name", f.head)
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// regex compiles a regular expression once.
func (p *parser) regex(expr string) (re *pattern, err error) {
	if re = p.compiled[expr]; re == nil {
		re, err = compile(expr)
		p.compiled[expr] = re
	}
	return re, err
}

// checkPath rejects a path that no file has in the file system's own view: a rule for it would match nothing.
func checkPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("the path %q isn't absolute", p)
	case p == "/":
		return nil
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("the path %q contains a NUL byte", p)
	}
	for c := range strings.SplitSeq(p[1:], "/") {
		if c == "" || c == "." || c == ".." {
			return fmt.Errorf("the path %q isn't canonical", p)
		}
	}
	return nil
}

// address reads the arguments of remote and local.
func (p *parser) address(e *expr, f *filter) error {
	args := e.args()
	if len(args) == 0 || len(args) > 2 || args[0].kind != symbol {
		return fmt.Errorf("%s with %d arguments", f.head, len(args))
	}
	f.addr.protocol = args[0].text
	switch {
	case f.addr.protocol == "unix-socket":
		if len(args) == 1 {
			return nil
		}
		of, err := p.filters(&args[1], []filterKind{onPath})
		f.of = of
		return err
	case !slices.Contains([]string{"ip", "tcp", "udp"}, f.addr.protocol):
		return fmt.Errorf("unbound variable: %s", f.addr.protocol)
	case len(args) == 1:
		return nil
	}
	s, err := p.text(&args[1])
	if err != nil {
		return err
	}
	host, port, ok := strings.Cut(s, ":")
	switch {
	case !ok:
		return errors.New("port missing in network address")
	case host != "*" && host != "localhost":
		return errors.New("host must be * or localhost in network address")
	}
	f.addr.localhost = host == "localhost"
	if port == "*" {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' {
		return errors.New("invalid port in network address")
	}
	f.addr.port = uint16(n)
	return nil
}

// Target is what an operation is about. A field that doesn't apply is empty.
type Target struct {
	Path     string         // of the file or unix socket, as Resolve returns it
	Type     string         // the file's vnode-type; "" if there is no file
	Protocol string         // "tcp" or "udp", for Addr
	Addr     netip.AddrPort // the peer of network-outbound; the own address of network-bind and network-inbound
	Name     string         // of a Mach service, a sysctl, a shared memory object, an ioctl, a socket's domain
	Process  string         // what the target process is: "self", "same-sandbox" or "others"
}

// matches reports whether the filter matches a target.
func (f *filter) matches(m Model, t *Target) bool {
	switch f.head {
	case "literal":
		return t.Path != "" && m.samePath(t.Path, f.value)
	case "subpath":
		return t.Path != "" && m.within(t, f.value)
	case "regex":
		return t.Path != "" && f.re.matches(m, t.Path)
	case "vnode-type":
		return t.Type == f.value
	case "target":
		return t.Process == f.value || f.value == "same-sandbox" && t.Process == "self"
	case "remote", "local":
		return f.matchesAddress(m, t)
	case "sysctl-name-prefix":
		return strings.HasPrefix(t.Name, f.value)
	case "require-all":
		return !slices.ContainsFunc(f.of, func(g filter) bool { return !g.matches(m, t) })
	case "require-any":
		return slices.ContainsFunc(f.of, func(g filter) bool { return g.matches(m, t) })
	case "require-not":
		return !f.of[0].matches(m, t)
	}
	return t.Name != "" && t.Name == f.value
}

var localhost = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.IPv4Unspecified(), netip.IPv6Unspecified()}

func (f *filter) matchesAddress(m Model, t *Target) bool {
	a := &f.addr
	if a.protocol == "unix-socket" {
		return t.Path != "" && (len(f.of) == 0 || f.of[0].matches(m, t))
	}
	switch addr := t.Addr.Addr().Unmap(); {
	case !addr.IsValid(), a.protocol != "ip" && a.protocol != t.Protocol:
		return false
	case f.head == "local" && m.LocalIsAny:
		return true
	case a.localhost && !slices.Contains(localhost, addr):
		return false
	}
	return a.port == 0 || a.port == t.Addr.Port()
}
