package egress

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// target finds out what a request is for, and writes its head for that.
func (k *httpConn) target(r *request) error {
	authority, tail := withPort(r.host, k.f.to.Port()), r.head.target
	scheme := "http"
	if k.name != "" {
		scheme = "https"
	}
	switch {
	case r.method == http.MethodConnect:
		return k.tunnelTarget(r)
	case r.head.target[0] == '/':
	case r.head.target == "*" && r.method == http.MethodOptions:
		tail = ""
	default:
		var ok bool
		if scheme, authority, tail, ok = splitURL(r.head.target); !ok || k.name != "" {
			return errHead("its target is neither a path nor a URL")
		}
		r.proxy = true // for now
	}
	if !r.proxy && !r.hasHost && r.version == "HTTP/1.0" {
		t, ok := k.f.only(scheme, k.f.names())
		if !ok {
			return errHead("it doesn't say for which host it is")
		}
		authority = t.HostPort()
	}
	t, err := parseTarget(scheme, authority, tail, r.ws)
	if err != nil {
		return errHead(err.Error())
	}
	if r.proxy && r.hasHost {
		if h, err := parseTarget(scheme, r.host, "", r.ws); err != nil || h.HostPort() != t.HostPort() {
			return errHead("its Host isn't that of its target")
		}
	}
	path, _, _ := strings.Cut(tail, "?")
	r.t, r.url = t, t.Scheme+"://"+t.HostPort()+path
	r.rewrite(scheme, tail)
	return k.override(r, scheme)
}

// maxOverrides is how many header fields of a kind a request may have that say something else than itself.
const maxOverrides = 4

// override reads the header fields by which some servers and frameworks let a request have another method or path than it says, or both;
// and those that name a second path, to write to or to read from.
func (k *httpConn) override(r *request, scheme string) error {
	methods, paths := []string{r.method}, []netname.Target{r.t}
	var second []netname.Target
	for _, f := range r.fields {
		name := folded(f.name)
		does := secondPath(name)
		switch {
		case name == "script-name", name == "path-info":
			return errHead(f.name + ", by which some servers divide the path")
		case name == "x-http-method-override", name == "x-http-method", name == "x-method-override":
			methods = append(methods, strings.ToUpper(f.value))
		case name == "x-original-url", name == "x-rewrite-url", does != nil:
			authority, path := r.t.HostPort(), f.value
			if s, host, tail, ok := splitURL(path); ok {
				path = tail
				if h, err := parseTarget(s, host, "", false); does != nil && (err != nil || h.HostPort() != authority) {
					return errHead("its " + f.name + " is of another host")
				}
			}
			t, err := parseTarget(scheme, authority, originForm(path), r.ws)
			if err != nil {
				return errHead(err.Error())
			}
			if does == nil {
				paths = append(paths, t)
			}
			for _, t.Method = range does {
				second = append(second, t)
			}
		}
	}
	if len(second) > maxOverrides {
		return errHead("too many header fields name another path")
	}
	if max(len(methods), len(paths)) > 1+maxOverrides {
		return errHead("too many header fields ask for another path or method")
	}
	for _, t := range paths {
		for _, t.Method = range methods {
			r.also = append(r.also, t)
		}
	}
	r.also = append(r.also[1:], second...) // without what it says itself
	return nil
}

// folded is the name of a header field as it may come to a program behind the server: CGI and what is like it make every character an
// underscore that is no letter or digit.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// secondPath is what is done with the path that a header field names in addition to the request's own, as methods: WebDAV's COPY and MOVE write
// there (RFC 4918, 10.3), and object stores copy or move from there, or link to it. nil: it names none.
func secondPath(name string) (methods []string) {
	is := func(suffix string) bool { return strings.HasPrefix(name, "x-") && strings.HasSuffix(name, suffix) }
	switch {
	case name == "destination":
		return []string{http.MethodPut}
	case name == "x-copy-from", name == "x-object-manifest", is("-copy-source"), is("-symlink-target"):
		return []string{http.MethodGet}
	case is("-rename-source"):
		return []string{http.MethodGet, http.MethodDelete}
	}
	return nil
}

// rewrite makes the head say what was understood. "*" stays.
func (r *request) rewrite(scheme, tail string) {
	r.host, r.hasHost = r.t.HostPort(), true // also in HTTP/1.0: without it the server takes its default host
	if r.t.Port == defaultPort(scheme) {
		r.host = strings.TrimSuffix(r.host, fmt.Sprintf(":%d", r.t.Port))
	}
	switch {
	case r.proxy:
		r.head.target = scheme + "://" + r.host + originForm(tail)
	case tail != "":
		r.head.target = originForm(tail)
	}
}

func originForm(tail string) string {
	if !strings.HasPrefix(tail, "/") {
		return "/" + tail
	}
	return tail
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// splitURL cuts a target in absolute form.
func splitURL(target string) (scheme, authority, tail string, ok bool) {
	scheme, rest, ok := strings.Cut(target, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", "", "", false
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		return scheme, rest, "", true
	}
	return scheme, rest[:end], rest[end:], true
}

// withPort is the Host of a request with the port, which it needn't name: it's that of the connection.
func withPort(host string, port uint16) string {
	if strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

func parseTarget(scheme, authority, tail string, ws bool) (netname.Target, error) {
	if strings.ContainsAny(authority, "/?#") {
		return netname.Target{}, fmt.Errorf("%q is no host", authority)
	}
	t, err := netname.ParseTarget(scheme + "://" + authority + tail)
	if ws {
		t.Scheme = map[string]string{"http": "ws", "https": "wss"}[scheme]
	}
	return t, err
}

func (k *httpConn) tunnelTarget(r *request) error {
	t, err := netname.ParseTarget("tcp://" + r.head.target)
	if err != nil || k.name != "" || k.f.via != nil || r.length != 0 {
		return errHead("its target is no host and port that a tunnel could lead to")
	}
	if r.hasHost {
		if h, err := netname.ParseTarget("tcp://" + r.host); err != nil || h.HostPort() != t.HostPort() {
			return errHead("its Host isn't that of its target")
		}
	}
	r.t, r.url, r.proxy = t, t.String(), true
	r.head.target, r.host, r.hasHost = t.HostPort(), t.HostPort(), true
	return nil
}
