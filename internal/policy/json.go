package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// wire is a compiled policy without its tables, which the reader builds: the form in which it leaves a process.
type wire struct {
	Name      string
	Workspace string
	Path      string
	TmpDir    string `json:",omitempty"`
	Digest    string
	Files     []string
	Layers    wireLayers
	Rules     []*Rule
	Limits    Limits
	Audit     Audit
	Aliases   []fspath.Alias `json:",omitempty"`
	Links     []Link         `json:",omitempty"`
}

// wireLayer is a layer whose tables are runs of rules; nil where a resource is undeclared.
type wireLayer struct {
	Layer
	FS, Net, Env, Commands, Protect, Secrets *run
}

type wireLayers []wireLayer

// maxLayers is more than any policy has, nested sessions included.
const maxLayers = 64

// UnmarshalJSON rejects too many layers before it decodes them: a decoded "{}" is 300 times as large as its text.
func (l *wireLayers) UnmarshalJSON(text []byte) error {
	var texts []json.RawMessage
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	if len(texts) > maxLayers {
		return fmt.Errorf("a compiled policy has at most %d layers, and not %d", maxLayers, len(texts))
	}
	*l = make(wireLayers, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &(*l)[i]); err != nil {
			return err
		}
	}
	return nil
}

// run is consecutive rules.
type run struct{ First, N int }

// MarshalJSON writes what UnmarshalJSON reads. A policy with a name that isn't UTF-8 can't be written: JSON would change
// the name.
func (c *Compiled) MarshalJSON() ([]byte, error) {
	w := c.wire()
	if err := w.writable(); err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads a compiled policy from an untrusted process: everything that works with a policy made by Compile works with what it
// accepts. It recomputes the digest. The parser is faster than encoding/json, which toolguardd's clients would wait for, and rejects
// duplicate names.
func (c *Compiled) UnmarshalJSON(text []byte) error {
	var w wire
	if err := jsonv2.Unmarshal(text, &w, jsonv1.FormatDurationAsNano(true)); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return fmt.Errorf("a compiled policy: %w", err)
	}
	got, err := w.compiled()
	if err != nil {
		return err
	}
	if got.Digest != w.Digest {
		return errors.New("a compiled policy: it doesn't match its digest: another version of toolguard wrote it")
	}
	*c = *got
	return nil
}

// Within returns the intersection of two policies: it allows what both allow, records what either records, and takes everything else from
// the inner one. It has a layer that is in both once, at the inner one's position: of all layers that deny, a verdict names the first.
func (c *Compiled) Within(outer *Compiled) (*Compiled, error) {
	around, more := outer.wire(), c.wire()
	w := more
	w.Files = slices.Clone(w.Files)
	files := map[string]bool{}
	for _, f := range w.Files {
		files[f] = true
	}
	for _, f := range around.Files { // the host's are in both
		if !files[f] {
			w.Files = append(w.Files, f)
		}
	}
	for _, a := range around.Aliases { // an alias with more holes doesn't weaken one with fewer
		if !slices.ContainsFunc(c.Aliases, a.Same) {
			w.Aliases = append(w.Aliases, a)
		}
	}
	w.Audit = w.Audit.or(around.Audit)
	w.Rules, w.Layers, w.Links = nil, nil, nil
	w.add(&around, func(i int) bool { return !more.has(c.Layers, outer.Layers[i], around.linksOf(i)) })
	w.add(&more, func(int) bool { return true })
	return w.compiled()
}

// add adds the wanted layers of another policy, with their rules and links.
func (w *wire) add(from *wire, wanted func(layer int) bool) {
	at := 0 // of from's rules
	for i, l := range from.Layers {
		first := at
		at += l.numRules()
		if !wanted(i) {
			continue
		}
		for _, k := range from.linksOf(i) {
			w.Links = append(w.Links, Link{k.Rule + int32(len(w.Rules)), int16(len(w.Layers)), k.File, k.Dev})
		}
		for _, r := range l.runs() {
			if r.N > 0 { // an empty one has no position
				r.First += len(w.Rules) - first
			}
		}
		for _, r := range from.Rules[first:at] {
			own := *r // its index changes
			w.Rules = append(w.Rules, &own)
		}
		w.Layers = append(w.Layers, l)
	}
}

// runs returns the layer's tables that aren't nil.
func (l *wireLayer) runs() []*run {
	return slices.DeleteFunc([]*run{l.FS, l.Net, l.Env, l.Commands, l.Protect, l.Secrets}, func(r *run) bool { return r == nil })
}

func (l *wireLayer) numRules() (n int) {
	for _, r := range l.runs() {
		n += r.N
	}
	return n
}

// linksOf returns the links of a layer. Their rules count from the layer's first.
func (w *wire) linksOf(layer int) (links []Link) {
	first := 0
	for i := range layer {
		first += w.Layers[i].numRules()
	}
	for _, k := range w.Links {
		if int(k.Layer) == layer {
			links = append(links, Link{Rule: k.Rule - int32(first), File: k.File, Dev: k.Dev})
		}
	}
	return links
}

// has reports whether l, with its links, is one of layers, which are w's.
func (w *wire) has(layers []*Layer, l *Layer, links []Link) bool {
	for i := range layers {
		if same(layers[i], l) && slices.Equal(w.linksOf(i), links) {
			return true
		}
	}
	return false
}

func (c *Compiled) wire() wire {
	w := wire{
		Name: c.Name, Workspace: c.Workspace, Path: c.Path, TmpDir: c.TmpDir, Digest: c.Digest, Files: c.Files,
		Rules: c.Rules, Limits: c.Limits, Audit: c.Audit, Aliases: slices.Clone(c.Aliases), Links: slices.Clone(c.Links),
	}
	for _, l := range c.Layers {
		w.Layers = append(w.Layers, wireLayer{
			Layer: *l, FS: runOf(l.FS), Net: runOf(l.Net), Env: runOf(l.Env), Commands: runOf(l.Commands), Protect: runOf(l.Protect), Secrets: runOf(l.Secrets),
		})
	}
	return w
}

func runOf[T any, P interface {
	*T
	Rules() []*Rule
}](table P,
) *run {
	if table == nil {
		return nil
	}
	rules := table.Rules()
	if len(rules) == 0 {
		return &run{}
	}
	return &run{int(rules[0].Index), len(rules)}
}

// compiled builds the tables.
func (w *wire) compiled() (*Compiled, error) {
	c := &Compiled{
		Name: w.Name, Workspace: w.Workspace, Path: w.Path, TmpDir: w.TmpDir, Files: w.Files, Rules: w.Rules, Limits: w.Limits,
		Audit: w.Audit, Aliases: w.Aliases, Links: w.Links,
	}
	if n := len(w.Layers); n > maxLayers { // UnmarshalJSON would reject it
		return nil, fmt.Errorf("a compiled policy has at most %d layers, and not %d", maxLayers, n)
	}
	if n := len(c.Aliases); n > maxAliases {
		return nil, fmt.Errorf("the paths of the rules have %d aliases by bind mounts, and at most %d are supported", n, maxAliases)
	}
	for i, r := range c.Rules {
		r.Index = int32(i)
	}
	for i := range w.Layers {
		l, err := w.layer(&w.Layers[i])
		if err != nil {
			return nil, err
		}
		c.Layers = append(c.Layers, l)
	}
	if len(c.Aliases) > 0 {
		if err := c.narrow(); err != nil {
			return nil, err
		}
	}
	c.setReadsTLS()
	c.Digest = c.digest()
	return c, nil
}

func (w *wire) layer(from *wireLayer) (*Layer, error) {
	l := from.Layer
	var errs [3]error
	if from.FS != nil {
		l.FS, errs[0] = newFSTable(w.rules(from.FS))
	}
	if from.Protect != nil {
		l.Protect, errs[1] = newFSTable(w.rules(from.Protect))
	}
	if from.Secrets != nil {
		l.Secrets, errs[2] = newFSTable(w.rules(from.Secrets))
	}
	if from.Net != nil {
		l.Net = newNetTable(w.rules(from.Net))
	}
	if from.Env != nil {
		l.Env = newEnvTable(w.rules(from.Env))
	}
	if from.Commands != nil {
		l.Commands = newCommandTable(w.rules(from.Commands))
	}
	return &l, errors.Join(errs[:]...)
}

func (w *wire) rules(r *run) []*Rule { return w.Rules[r.First : r.First+r.N : r.First+r.N] }
