package egress

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// resolveTarget finds a request's target and writes it into the head in one form.
func (hc *httpConn) resolveTarget(r *request) error {
	authority, tail := withPort(r.host, hc.c.to.Port()), r.head.target
	scheme := "http"
	if hc.tlsHost != "" {
		scheme = "https"
	}
	switch {
	case r.method == http.MethodConnect:
		return hc.tunnelTarget(r)
	case r.head.target[0] == '/':
	case r.head.target == "*" && r.method == http.MethodOptions:
		tail = ""
	default:
		var ok bool
		if scheme, authority, tail, ok = splitURL(r.head.target); !ok || hc.tlsHost != "" {
			return errHead("its target is neither a path nor a URL")
		}
		r.viaProxy = true // decideTarget may change that
	}
	if !r.viaProxy && !r.hasHost && r.version == "HTTP/1.0" {
		t, ok := hc.c.defaultTarget(scheme, hc.c.names())
		if !ok {
			return errHead("it names no host, and the address has several names")
		}
		authority = t.HostPort()
	}
	t, err := parseTarget(scheme, authority, tail, r.webSocket)
	if err != nil {
		return errHead(err.Error())
	}
	if r.viaProxy && r.hasHost {
		if h, err := parseTarget(scheme, r.host, "", r.webSocket); err != nil || h.HostPort() != t.HostPort() {
			return errHead("its Host isn't that of its target")
		}
	}
	path, _, _ := strings.Cut(tail, "?")
	r.dest, r.url = t, t.Scheme+"://"+t.HostPort()+path
	r.rewrite(scheme, tail)
	return hc.readOverrides(r, scheme)
}

// maxOverrides limits the header fields of a kind that override a request's own method or path.
const maxOverrides = 4

// readOverrides reads the header fields that override the method or path in some servers and frameworks, and those that name a second path
// to write to or read from.
func (hc *httpConn) readOverrides(r *request, scheme string) error {
	methods, paths := []string{r.method}, []netname.Target{r.dest}
	var secondPaths []netname.Target
	for _, f := range r.fields {
		name := foldName(f.name)
		pathMethods := secondPathMethods(name)
		switch {
		case name == "script-name", name == "path-info":
			return errHead(f.name + ", by which some servers divide the path")
		case name == "x-http-method-override", name == "x-http-method", name == "x-method-override":
			methods = append(methods, strings.ToUpper(f.value))
		case name == "x-original-url", name == "x-rewrite-url", pathMethods != nil:
			authority, path := r.dest.HostPort(), f.value
			if s, host, tail, ok := splitURL(path); ok {
				path = tail
				if h, err := parseTarget(s, host, "", false); pathMethods != nil && (err != nil || h.HostPort() != authority) {
					return errHead("its " + f.name + " is of another host")
				}
			}
			t, err := parseTarget(scheme, authority, originForm(path), r.webSocket)
			if err != nil {
				return errHead(err.Error())
			}
			if pathMethods == nil {
				paths = append(paths, t)
			}
			for _, t.Method = range pathMethods {
				secondPaths = append(secondPaths, t)
			}
		}
	}
	if len(secondPaths) > maxOverrides {
		return errHead("too many header fields name another path")
	}
	if max(len(methods), len(paths)) > 1+maxOverrides {
		return errHead("too many header fields ask for another path or method")
	}
	for _, t := range paths {
		for _, t.Method = range methods {
			r.alternatives = append(r.alternatives, t)
		}
	}
	r.alternatives = append(r.alternatives[1:], secondPaths...) // without the request's own target
	return nil
}

// foldName returns the name of a header field as a program behind the server may see it. CGI and similar interfaces change every character
// except letters and digits into an underscore.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// secondPathMethods returns what a server does with the second path in a header field, as methods; nil: the field names no path. WebDAV's
// COPY and MOVE write there (RFC 4918, 10.3). Object stores copy or move from there, or link to it.
func secondPathMethods(name string) (methods []string) {
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

// rewrite writes the parsed target into the head. "*" stays.
func (r *request) rewrite(scheme, tail string) {
	r.host, r.hasHost = r.dest.HostPort(), true // also in HTTP/1.0: without Host a server uses its default host
	if r.dest.Port == defaultPort(scheme) {
		r.host = strings.TrimSuffix(r.host, fmt.Sprintf(":%d", r.dest.Port))
	}
	switch {
	case r.viaProxy:
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

// splitURL splits a target in absolute form.
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

// withPort returns a Host with a port: the connection's, if it has none.
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

func (hc *httpConn) tunnelTarget(r *request) error {
	t, err := netname.ParseTarget("tcp://" + r.head.target)
	if err != nil || hc.tlsHost != "" || hc.c.via != nil || r.length != 0 {
		return errHead("its target is no host and port for a tunnel")
	}
	if r.hasHost {
		if h, err := netname.ParseTarget("tcp://" + r.host); err != nil || h.HostPort() != t.HostPort() {
			return errHead("its Host isn't that of its target")
		}
	}
	r.dest, r.url, r.viaProxy = t, t.String(), true
	r.head.target, r.host, r.hasHost = t.HostPort(), t.HostPort(), true
	return nil
}
