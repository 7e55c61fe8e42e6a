package program

import (
	"net/netip"
	"strings"
)

// This file has the roles of curl's words, and of programs like it.

// applyURL is for an address. A pattern of curl is unclear, as it may be several addresses; their host is judged if it's before the pattern.
func applyURL(in *inspection, w, shown Word) {
	if w.Known && w.Text == "" {
		return
	}
	if w.splits() {
		w.Prefix = ""
	}
	if text := w.certain(); !strings.Contains(text, "://") && text != "" {
		if strings.Contains(text, "/") || w.Known {
			w.Text, w.Prefix = "http://"+w.Text, "http://"+w.Prefix
		}
	}
	if text := w.certain(); !isAddress(text) {
		in.unclear(shown.Text, "may be a pattern of several addresses")
		w = Word{Text: w.Text, Prefix: text[:patternAt(text)], Many: true}
	}
	in.out.URLs = append(in.out.URLs, URL{w})
}

func isAddress(text string) bool { return patternAt(text) == len(text) }

// patternAt is where a pattern of curl begins: it's none if brackets have an IPv6 address.
func patternAt(text string) int {
	from := 0
	if i := strings.Index(text, "://["); i >= 0 {
		address, _, ok := strings.Cut(text[i+4:], "]")
		if _, err := netip.ParseAddr(address); ok && err == nil {
			from = i + 4 + len(address) + 1
		}
	}
	if i := strings.IndexAny(text[from:], "{}[] \\"); i >= 0 {
		return from + i
	}
	return len(text)
}

// applyReroute is for options with which curl connects to another address than that of the URL.
func applyReroute(in *inspection, _, shown Word) {
	in.unclear(shown.Text, "can make "+in.name+" connect to another address")
}

// applyAt is for [NAME]@FILE; with a "=" before the "@" it's data.
func applyAt(in *inspection, w, _ Word) {
	if i := strings.IndexAny(w.certain(), "@="); i >= 0 && w.certain()[i] == '@' {
		in.file(w.after(i+1), Read)
	}
}

// applyForm is for curl -F: NAME=@FILE,FILE;type=… or NAME=<FILE.
func applyForm(in *inspection, w, shown Word) {
	_, value, _ := strings.Cut(w.certain(), "=")
	if value == "" || value[0] != '@' && value[0] != '<' {
		return
	}
	names, _, _ := strings.Cut(value[1:], ";")
	if !w.Known || strings.ContainsAny(value, `"\`) {
		in.unclear(shown.Text, "names files in a form that isn't understood")
		return
	}
	for name := range strings.SplitSeq(names, ",") {
		in.file(Literal(strings.TrimSpace(name)), Read)
	}
}

// applyUpload is for curl -T: a file, or a pattern of files.
func applyUpload(in *inspection, w, shown Word) {
	if !isAddress(w.certain()) {
		in.unclear(shown.Text, "is a pattern of files for "+in.name)
		return
	}
	in.file(w, Read)
}

// applyCookie is for curl -b: cookies, or a file.
func applyCookie(in *inspection, w, _ Word) {
	if !strings.Contains(w.certain(), "=") {
		in.file(w, Read)
	}
}

// applyCertificate is for curl -E: FILE[:PASSWORD].
func applyCertificate(in *inspection, w, shown Word) {
	name, _, _ := strings.Cut(w.Text, ":")
	if !w.Known || strings.Contains(w.Text, `\`) {
		in.unclear(shown.Text, "names a file in a form that isn't understood")
		return
	}
	in.file(Literal(name), Read)
}

// applyData is for curl -d and -H: @FILE, or data.
func applyData(in *inspection, w, _ Word) {
	if w.Known && strings.HasPrefix(w.Text, "@") {
		in.file(Literal(w.Text[1:]), Read)
	}
}

// applyProxy is for curl's proxies, to which it connects instead.
func applyProxy(in *inspection, w, shown Word) {
	if w.Known && w.Text != "" {
		_, rest, ok := strings.Cut(w.Text, "://")
		if !ok {
			rest = w.Text
		}
		host, _, _ := strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "/")
		if isPlain(host) && strings.Contains(host, ":") {
			in.out.URLs = append(in.out.URLs, URL{Literal("tcp://" + host)})
			return
		}
		in.unclear(shown.Text, "is a proxy that isn't understood")
	}
}
