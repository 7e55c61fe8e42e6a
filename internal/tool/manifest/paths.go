package manifest

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// The search for widened paths reads a path component by component, as the tables of both policies do, and visits each state that some path
// leads to once. A state is: where the path is in the tree of literal rules, which patterns have begun, and for each table what the deciding
// rule so far allows. Names that all rules treat alike are represented by one name. So there is a path in the result for each combination
// of decisions that any path has.

// maxStates bounds the search. A policy of thousands of rules has about as many states.
const maxStates = 1 << 17

var errStates = errors.New("the file rules of the two manifests have too many combinations to compare")

// node is a folder or file that literal rules, or the BASEs of patterns, name or are beneath.
type node struct {
	id       int
	children map[string]*node
	literal  []literal
	patterns []int // those whose BASE it is
}

type literal struct {
	table int
	class byte
}

// pattern is BASE/**/LAST/NAME….
type pattern struct {
	table, order int
	class        byte
	tail         []string
}

// decide is one layer: the classes of its tables are indexes of verdicts.
type decide struct {
	fs, protect, secrets int // tables; -1 for none
	caps                 policy.Caps
}

// search is the state of one search.
type search struct {
	caps     policy.Caps // the one that it's about
	root     *node
	nodes    int
	patterns []pattern
	tables   int
	classes  []class
	sides    [2][]decide
	names    []string // that patterns distinguish
	memo     map[string][]step
	firsts   map[string][]int // by name: the patterns whose first component matches
}

// class is what a deciding rule does.
type class struct {
	caps    policy.Caps
	exempts [policy.NumRestrictions]bool
}

// state is a path's state.
type state struct {
	at    *node // nil: beneath every literal rule
	bases []int // nodes with patterns that the path has passed
	begun []int // pairs: a pattern, and how many components of it have matched
	best  []byte
	from  *state
	name  string
}

// step is a state with the patterns' part alone, and the names that lead to it.
type step struct {
	names []string
	begun []int
	best  []byte
}

// searches returns the searches that together find every path on which only the new policy allows something: for each capability, one for
// each old layer that denies it somewhere. A layer that the new policy has, too, denies nothing that the new policy allows.
func searches(old, new *policy.Compiled) (all []*search) {
	for _, c := range []policy.Caps{policy.Read, policy.Create, policy.Update, policy.Delete, policy.Execute} {
		for _, l := range old.Layers {
			s := &search{caps: c, root: &node{children: map[string]*node{}}, nodes: 1, classes: []class{{}}, memo: map[string][]step{}, firsts: map[string][]int{}}
			known := map[string]int{}
			denies := s.layer(l, known)
			s.sides[0] = []decide{denies}
			for _, n := range new.Layers {
				s.sides[1] = append(s.sides[1], s.layer(n, known))
			}
			if !slices.Contains(s.sides[1], denies) {
				s.names = s.representatives()
				all = append(all, s)
			}
		}
	}
	return all
}

// layer adds the tables of a layer that decide about the capability.
func (s *search) layer(l *policy.Layer, known map[string]int) decide {
	d := decide{fs: -1, protect: -1, secrets: -1, caps: s.caps}
	var relevant [policy.NumRestrictions]bool
	for k, t := range l.Restrictions() {
		relevant[k] = t != nil && policy.RestrictedCaps[k]&s.caps != 0
	}
	if l.Defaults[policy.FS] != policy.Undeclared {
		d.fs = s.table(l.FS, known, func(r *policy.Rule) class {
			c := class{r.FS.Caps & s.caps, r.FS.Exempts()}
			for k := range relevant { // what is denied anyway needs no mark
				c.exempts[k] = c.exempts[k] && relevant[k] && c.caps != 0
			}
			return c
		})
		if l.Defaults[policy.FS] != policy.Allow {
			d.caps = 0
		}
	}
	restrictions := l.Restrictions()
	for k, into := range []*int{policy.RestrictProtect: &d.protect, policy.RestrictSecrets: &d.secrets} {
		if relevant[k] {
			*into = s.table(restrictions[k], known, func(r *policy.Rule) class {
				return class{caps: policy.Restriction(k).Removes(r) & s.caps}
			})
		}
	}
	return d
}

// table adds the rules of a table once, and returns its number.
func (s *search) table(t *policy.FSTable, known map[string]int, of func(*policy.Rule) class) int {
	var key strings.Builder
	for _, r := range t.Rules() {
		key.WriteString(text([]any{r.FS.Entry, of(r).caps, of(r).exempts}))
	}
	if n, ok := known[key.String()]; ok {
		return n
	}
	n := s.tables
	known[key.String()] = n
	s.tables++
	for i, r := range t.Rules() {
		at := s.node(r.FS.Path)
		if r.FS.Last == "" {
			at.literal = slices.DeleteFunc(at.literal, func(l literal) bool { return l.table == n })
			at.literal = append(at.literal, literal{n, s.class(of(r))})
			continue
		}
		at.patterns = append(at.patterns, len(s.patterns))
		s.patterns = append(s.patterns, pattern{n, i, s.class(of(r)), append([]string{r.FS.Last}, r.FS.Names...)})
	}
	return n
}

func (s *search) node(path string) *node {
	at := s.root
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		next := at.children[name]
		if next == nil {
			next = &node{id: s.nodes, children: map[string]*node{}}
			s.nodes++
			at.children[name] = next
		}
		at = next
	}
	return at
}

// class returns the number of a class; 0 is that no rule decides.
func (s *search) class(c class) byte {
	for i, x := range s.classes[1:] {
		if x == c {
			return byte(i + 1)
		}
	}
	s.classes = append(s.classes, c) // there are fewer than 256: 32 sets of capabilities, and two marks
	return byte(len(s.classes) - 1)
}

// representatives returns a name for every set of pattern components that some name matches, and that no literal rule names.
func (s *search) representatives() []string {
	exact, prefixes, suffixes := map[string]bool{}, map[string]bool{"": true}, map[string]bool{"": true}
	taken := names{exact: map[string]bool{}}
	s.root.each(func(name string) { taken.exact[name] = true })
	for _, p := range s.patterns {
		for i, c := range p.tail {
			switch {
			case i == 0 && strings.HasSuffix(c, "*"):
				prefixes[strings.TrimSuffix(c, "*")] = true
				taken.add(c)
			case i == 0 && strings.HasPrefix(c, "*"):
				suffixes[strings.TrimPrefix(c, "*")] = true
				taken.add(c)
			default:
				exact[c], taken.exact[c] = true, true
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(prefixes)) {
		for _, x := range slices.Sorted(maps.Keys(suffixes)) {
			exact[taken.example(p+"*"+x, "example", letters)] = true
		}
	}
	return slices.Sorted(maps.Keys(exact))
}

// each calls f for the names beneath a node.
func (n *node) each(f func(name string)) {
	for name, child := range n.children {
		f(name)
		child.each(f)
	}
}

// first returns the patterns whose first component matches a name.
func (s *search) first(name string) []int {
	list, ok := s.firsts[name]
	if !ok {
		for i, p := range s.patterns {
			if matches(p.tail[0], name) {
				list = append(list, i)
			}
		}
		s.firsts[name] = list
	}
	return list
}

// matches reports whether a name matches LAST.
func matches(last, name string) bool {
	if p, ok := strings.CutSuffix(last, "*"); ok {
		return strings.HasPrefix(name, p)
	}
	if x, ok := strings.CutPrefix(last, "*"); ok {
		return strings.HasSuffix(name, x)
	}
	return last == name
}

// advance returns the state after one more component, by the patterns alone.
func (s *search) advance(bases, begun []int, best []byte, name string) step {
	out := step{names: []string{name}, best: slices.Clone(best)}
	done := map[int]int{} // by table: the last pattern that ends here
	add := func(p, n int) {
		if n < len(s.patterns[p].tail) {
			out.begun = append(out.begun, p, n)
			return
		}
		t := s.patterns[p].table
		if q, ok := done[t]; !ok || s.patterns[q].order < s.patterns[p].order {
			done[t] = p
		}
	}
	for i := 0; i < len(begun); i += 2 {
		if p, n := begun[i], begun[i+1]; s.patterns[p].tail[n] == name {
			add(p, n+1)
		}
	}
	for _, p := range s.first(name) {
		if slices.Contains(bases, p) {
			add(p, 1)
		}
	}
	for t, p := range done {
		out.best[t] = s.patterns[p].class
	}
	return out
}

// key identifies the patterns' part of a state.
func key(node int, bases, begun []int, best []byte) string {
	b := binary.AppendVarint(nil, int64(node))
	b = binary.AppendVarint(b, int64(len(bases)))
	for _, n := range bases {
		b = binary.AppendVarint(b, int64(n))
	}
	b = binary.AppendVarint(b, int64(len(begun)))
	for _, n := range begun {
		b = binary.AppendVarint(b, int64(n))
	}
	return string(append(b, best...))
}

// run calls found for each state in which the new policy allows more, with a path that leads to it.
func (s *search) run(found func(path string)) error {
	start := &state{at: s.root, best: make([]byte, s.tables), bases: s.root.patterns}
	start.literals(s.root)
	seen, queue := map[string]bool{}, []*state{}
	push := func(n *state) {
		id := -1
		if n.at != nil {
			id = n.at.id
		}
		if k := key(id, n.bases, n.begun, n.best); !seen[k] {
			seen[k] = true
			queue = append(queue, n)
		}
	}
	push(start)
	for i := 0; i < len(queue); i++ {
		if len(queue) > maxStates {
			return errStates
		}
		n := queue[i]
		if s.allowed(1, n.best)&^s.allowed(0, n.best) != 0 {
			found(n.path())
		}
		s.next(n, push)
	}
	return nil
}

// next calls push for each state after one more component.
func (s *search) next(n *state, push func(*state)) {
	for _, x := range s.steps(n) {
		i := 0
		if n.at != nil {
			i = slices.IndexFunc(x.names, func(name string) bool { return n.at.children[name] == nil })
		}
		if i >= 0 {
			push(&state{bases: n.bases, begun: x.begun, best: x.best, from: n, name: x.names[i]})
		}
	}
	if n.at == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.at.children)) {
		child := n.at.children[name]
		x := s.advance(n.bases, n.begun, n.best, name)
		next := &state{at: child, bases: n.bases, begun: x.begun, best: x.best, from: n, name: name}
		if len(child.patterns) > 0 {
			next.bases = append(slices.Clone(n.bases), child.patterns...)
		}
		next.literals(child)
		push(next)
	}
}

// steps returns what one more component that no literal rule names leads to.
func (s *search) steps(n *state) []step {
	k := key(0, n.bases, n.begun, n.best)
	steps, ok := s.memo[k]
	if ok {
		return steps
	}
	known := map[string]int{}
	for _, name := range s.names {
		x := s.advance(n.bases, n.begun, n.best, name)
		id := key(0, nil, x.begun, x.best)
		if i, ok := known[id]; ok {
			steps[i].names = append(steps[i].names, name)
			continue
		}
		known[id] = len(steps)
		steps = append(steps, x)
	}
	s.memo[k] = steps
	return steps
}

// literals applies the literal rules of a node, which win against patterns of the same depth.
func (n *state) literals(at *node) {
	for _, l := range at.literal {
		n.best[l.table] = l.class
	}
}

func (n *state) path() string {
	var names []string
	for at := n; at.from != nil; at = at.from {
		names = append(names, at.name)
	}
	slices.Reverse(names)
	return "/" + strings.Join(names, "/")
}
