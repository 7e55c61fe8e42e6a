package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/tool/program"
)

var (
	descriptor = lazy.Regexp(`^([0-9]+-?|-)$`)
	standard   = lazy.Regexp(`^/dev/(stdin|stdout|stderr|fd/[0-9]+)$`)
	// expandsToItself matches text that an expansion leaves as it is.
	expandsToItself = lazy.Regexp(`^[A-Za-z0-9_./+:,@%-]+$`)

	socket = lazy.Regexp(`^/dev/(tcp|udp)/([^/]+)/([^/]+)$`)
)

func (a *analyzer) redirects(all []*syntax.Redirect, st *state) {
	for _, r := range all {
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
			name := strings.Trim(r.N.Value, "{}")
			if !identifier().MatchString(name) {
				a.unclear(name, "is assigned a file descriptor")
			}
			v := unknownValue(name)
			v.numeric = true
			a.risky(name, v)
		}
		if r.N != nil && (len(r.N.Value) > 1 && a.dialect != Bash || len(r.N.Value) > 3) && r.N.Value[0] != '{' {
			a.unclear(r.N.Value, "is a descriptor or an argument")
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if r.Hdoc != nil && !strings.ContainsAny(a.source(r.Word), `\'"`) {
				a.hereBody(r.Hdoc, st)
			}
		case syntax.WordHdoc:
			a.one(r.Word, st)
		default:
			a.redirect(r, st)
		}
	}
}

func (a *analyzer) redirect(r *syntax.Redirect, st *state) {
	if _, pipe := r.Word.Parts[0].(*syntax.ProcSubst); pipe && len(r.Word.Parts) == 1 && r.Op != syntax.DplIn && r.Op != syntax.DplOut {
		a.parts(r.Word.Parts, false, st)
		return
	}
	for _, v := range a.word(r.Word, target, st) {
		duplicates := r.Op == syntax.DplIn || r.Op == syntax.DplOut
		switch {
		case duplicates && (v.numeric || v.Known && descriptor().MatchString(v.Text)):
		case r.Op == syntax.DplIn && a.dialect != Zsh: // anything else is an error
		case !v.Known:
			a.unclear(v.Text, "is the target of a redirection, and isn't known")
		case standard().MatchString(v.Text):
		case a.dialect == Bash && strings.HasPrefix(v.Text, "/dev/tcp/"), a.dialect == Bash && strings.HasPrefix(v.Text, "/dev/udp/"):
			a.socket(v)
		case r.Op == syntax.DplOut && a.dialect != Zsh && !expandsToItself().MatchString(v.Text):
			a.unclear(v.Text, "is the target of a redirection that bash expands twice")
		default:
			a.file(v.Word, r.Op, st)
		}
	}
}

func (a *analyzer) socket(v value) {
	m := socket().FindStringSubmatch(v.Text)
	if m == nil {
		a.unclear(v.Text, "is a network address that isn't understood")
		return
	}
	host := m[2]
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	a.out.URLs = append(a.out.URLs, program.URL{Target: program.Literal(m[1] + "://" + host + ":" + m[3])})
}

func (a *analyzer) file(path program.Word, op syntax.RedirOperator, st *state) {
	for _, dir := range st.dirs {
		if op == syntax.RdrIn || op == syntax.RdrInOut || op == syntax.DplIn {
			a.out.Files = append(a.out.Files, program.File{Path: path, Dir: dir, Access: program.Read})
		}
		if op != syntax.RdrIn {
			a.out.Files = append(a.out.Files, program.File{Path: path, Dir: dir, Access: program.Write})
		}
	}
}
