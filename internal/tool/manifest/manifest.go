package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/strictjson"
)

const (
	format  = "toolguard.manifest"
	version = 1
)

// MaxSize is the most bytes that a manifest may have.
const MaxSize = 16 << 20

// Manifest is a policy's permissions.
type Manifest struct {
	Format    string            `json:"format"`
	Version   int               `json:"version"`
	Digest    string            `json:"digest"`
	Policy    Policy            `json:"policy"`
	Access    *Access           `json:"access"` // without a tool
	Enter     []Enter           `json:"enter"`  // the same
	Agents    []Agent           `json:"agents"`
	Tools     []Tool            `json:"tools"`
	Stages    []Stage           `json:"stages"`
	Gate      Gate              `json:"gate"`
	Approvals []Approvals       `json:"approvals"` // for all agents first; none: nobody is asked
	Hooks     Hooks             `json:"hooks"`
	Protect   []Mode            `json:"protect"`
	Secrets   []Mode            `json:"secrets"`
	Limits    map[string]uint64 `json:"limits"`
	Sets      map[string][]rule `json:"sets"` // built-in rules, by the name that lists have for them
	Layer     *toolset.Layer    `json:"layer"`
}

// Policy is the policy that a manifest is of.
type Policy struct {
	Name   string   `json:"name"`
	Digest string   `json:"digest"` // of the policy without a tool, for any machine
	Files  []string `json:"files"`  // which no command may change
}

// Agent is an agent that the policy names; "*" is any other one.
type Agent struct {
	Name     string   `json:"name"`
	Profile  string   `json:"profile"`
	MaxDepth int      `json:"max_depth"` // of its sub-agents
	Tools    []string `json:"tools"`     // that it sees, of those in the manifest
}

// Tool is a tool, or the tools of a pattern.
type Tool struct {
	Name        string      `json:"name"`
	Source      string      `json:"source"`
	Kind        string      `json:"kind"`
	Risk        string      `json:"risk"`
	OwnerOnly   bool        `json:"owner_only"`
	Models      []string    `json:"models"` // the only ones that see it; null: all
	Ask         string      `json:"ask"`
	Constraints Constraints `json:"constraints"`
	Enter       []Enter     `json:"enter"`
	Declared    []string    `json:"declared"` // the resources that its own tables declare
	Access      *Access     `json:"access"`   // null: as without a tool
}

// Constraints are a tool's constraints.
type Constraints struct {
	MaxInvocations int      `json:"max_invocations"` // 0: no limit
	OnlyAfter      []string `json:"only_after"`
	Forbidden      bool     `json:"forbidden"`
}

// Enter is a transition: the command's process has the policy of a tool.
type Enter struct {
	Command string `json:"command"`
	Tool    string `json:"tool"`
}

// Stage is what an authority other than the session adds for one caller.
type Stage struct {
	Caller
	Access []*Access         `json:"access"` // of each authority; each restricts
	Limits map[string]uint64 `json:"limits"`
}

// Caller is for whom a stage applies. Without any field it's every caller.
type Caller struct {
	Agent    string `json:"agent,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Provider string `json:"provider,omitempty"`
	Group    string `json:"group,omitempty"`
	Depth    int    `json:"depth,omitempty"`
}

// Gate is [gate].
type Gate struct {
	Enabled           bool     `json:"enabled"`
	Strict            bool     `json:"strict"`
	AllowParentAccess bool     `json:"allow_parent_access"`
	Shell             string   `json:"shell"`
	Exclude           []string `json:"exclude"`
}

// Approvals is [approvals], for one agent or, without a name, for all.
type Approvals struct {
	Agent       string `json:"agent"`
	Security    string `json:"security"`
	Ask         string `json:"ask"`
	AskFallback string `json:"ask_fallback"`
	Timeout     string `json:"timeout"`
}

// Hooks are the hooks around calls.
type Hooks struct {
	Before []Hook `json:"before_tool_call"`
	After  []Hook `json:"after_tool_call"`
}

// Hook is one hook.
type Hook struct {
	Command []string `json:"command"`
	URL     string   `json:"url"`
	Timeout string   `json:"timeout"`
	Tools   []string `json:"tools"` // null: all
}

// Mode is how an authority's protect or secrets is enforced.
type Mode struct {
	Authority string `json:"authority"`
	Mode      string `json:"mode"`
}

// JSON returns the manifest as text, with sorted keys and its digest.
func (m *Manifest) JSON() ([]byte, error) {
	v, err := canonical(m)
	if err != nil {
		return nil, err
	}
	if v["digest"], err = digestOf(v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	write(&b, v, "", 0)
	return append(b.Bytes(), '\n'), nil
}

// compact are the values that programs read: each of their entries is one line.
var compact = []string{"layer", "sets"}

// write writes a value with a key and an entry of a list on each line, up to the objects that have neither objects nor long lists.
func write(b *bytes.Buffer, v any, indent string, depth int) {
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	if one := text(v); !isObject && !isList || len(indent)+len(one) <= maxLine || depth < 0 {
		b.WriteString(one)
		return
	}
	inner, sep := indent+"  ", "\n"
	if isList {
		b.WriteByte('[')
		for _, x := range list {
			b.WriteString(sep + inner)
			write(b, x, inner, depth+1)
			sep = ",\n"
		}
		b.WriteString("\n" + indent + "]")
		return
	}
	b.WriteByte('{')
	for _, k := range slices.Sorted(maps.Keys(object)) {
		b.WriteString(sep + inner + text(k) + ": ")
		next := depth + 1
		if depth < 0 || slices.Contains(compact, k) && depth == 0 {
			next = -2
		}
		write(b, object[k], inner, next)
		sep = ",\n"
	}
	b.WriteString("\n" + indent + "}")
}

// maxLine is about how many bytes a line of a manifest has.
const maxLine = 160

// canonical returns a value as a map, whose keys json sorts.
func canonical(m any) (map[string]any, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return object(text)
}

func object(text []byte) (v map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// digestOf returns the SHA-256 of everything but the digest.
func digestOf(v map[string]any) (string, error) {
	rest := make(map[string]any, len(v))
	for k, x := range v {
		if k != "digest" {
			rest[k] = x
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Parse reads a manifest. A text with another digest than its own, or with a key that this version doesn't know, is an error.
func Parse(text []byte) (*Manifest, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it has more than %d bytes", MaxSize)
	}
	if err := strictjson.Check(text); err != nil {
		return nil, err
	}
	v, err := object(text)
	if err != nil {
		return nil, err
	}
	switch {
	case v["format"] == nil:
		return nil, fmt.Errorf("it isn't a manifest: it has no format, and not %q", format)
	case v["format"] != format:
		return nil, fmt.Errorf("it isn't a manifest: its format is %v, and not %q", v["format"], format)
	case v["version"] != json.Number("1"):
		return nil, fmt.Errorf("its version is %v, and this toolguard reads version %d: generate it again", v["version"], version)
	}
	if want, err := digestOf(v); err != nil || v["digest"] != want {
		return nil, errors.New("its digest is wrong: it was edited, or is damaged; generate it again")
	}
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, err
	}
	if m.Access == nil || m.Layer == nil || len(m.Stages) == 0 {
		return nil, errors.New("it has no access, layer or stages: generate it again")
	}
	if hasNull(reflect.ValueOf(m)) {
		return nil, errors.New("a list of it has null: generate it again")
	}
	return m, nil
}

// hasNull reports whether a list or map has an entry that is nil, which Generate writes nowhere.
func hasNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && hasNull(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if x := v.Index(i); x.Kind() == reflect.Pointer && x.IsNil() || hasNull(x) {
				return true
			}
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if x := i.Value(); x.Kind() == reflect.Pointer && x.IsNil() || hasNull(x) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if hasNull(v.Field(i)) {
				return true
			}
		}
	}
	return false
}
