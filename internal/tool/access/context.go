package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// Variable names the file with the document.
const Variable = "TOOLGUARD_CONTEXT"

// MaxSize is how large a document may be, in bytes.
const MaxSize = 16 << 20

// Context is the document.
type Context struct {
	Root     string           `json:"root"`   // the workspace, canonical
	Action   string           `json:"action"` // "run"
	Tool     string           `json:"tool"`
	Access   Access           `json:"access"`
	Patterns Patterns         `json:"patterns"`
	Policy   *policy.Compiled `json:"policy"`
}

// Access is what is granted. No field is nil.
type Access struct {
	FS       []FS               `json:"fs"` // the one with the most components decides
	Net      []Net              `json:"net"`
	Env      []Env              `json:"env"`
	Commands map[string]Command `json:"commands"`
}

// FS is what is granted at a path and beneath it.
type FS struct {
	Path string `json:"path"` // relative to the workspace if it's there, else absolute
	Caps
	Unprotect bool `json:"unprotect,omitempty"` // the kind of Removal doesn't apply
	Secret    bool `json:"secret,omitempty"`
}

// Caps are capabilities on files.
type Caps struct {
	Read    bool `json:"read"`
	Create  bool `json:"create"`
	Update  bool `json:"update"`
	Delete  bool `json:"delete"`
	Execute bool `json:"execute"`
}

// Net is whether connections to a host are granted.
type Net struct {
	Host       string `json:"host"`
	Scheme     string `json:"scheme,omitempty"`
	Port       int    `json:"port,omitempty"`
	PathPrefix string `json:"path_prefix,omitempty"`
	Allow      bool   `json:"allow"`
}

// Env is whether variables of a name, or of a prefix before "*", are granted.
type Env struct {
	Name string `json:"name"`
	Read bool   `json:"read"`
}

// Command is a program that is granted, with the argument lists that it accepts: "**" at the end of one lets any others follow.
type Command struct {
	Args [][]string `json:"args"`
}

// Patterns are the rules about names at any depth.
type Patterns struct {
	FS      []Pattern `json:"fs"`      // each competes with the paths of Access.FS
	Removed []Removal `json:"removed"` // what is taken from what these grant
}

// Pattern matches consecutive components anywhere beneath Base, and everything beneath them. The first is a name, "PREFIX*" or "*SUFFIX". The
// depth of a match is the number of components up to its last one.
type Pattern struct {
	Base  string   `json:"base"`
	Match []string `json:"match"`
	Caps
	Unprotect bool `json:"unprotect,omitempty"`
	Secret    bool `json:"secret,omitempty"`
}

// Removal removes capabilities: those that its deepest match names.
type Removal struct {
	Unless string         `json:"unless"` // the key of a deciding rule to which it doesn't apply: "unprotect" or "secret"; "" for none
	Rules  []RemovalEntry `json:"rules"`
}

// RemovalEntry is an entry of a Removal. Without Match, it's about Base and what is beneath.
type RemovalEntry struct {
	Base    string   `json:"base"`
	Match   []string `json:"match"`
	Removes []string `json:"removes"` // empty for an exception
}

// New describes the access of a tool under its policy.
func New(c *policy.Compiled, tool string) *Context {
	return &Context{
		Root: c.Workspace, Action: "run", Tool: tool, Policy: c, Patterns: patterns(c),
		Access: Access{FS: paths(c), Net: hosts(c), Env: variables(c), Commands: commands(c)},
	}
}

// JSON returns the document. The error is that of a policy with a name that JSON can't represent, or of one that is too large.
func (x *Context) JSON() ([]byte, error) {
	text, err := json.Marshal(x)
	if err == nil && len(text) > MaxSize {
		err = fmt.Errorf("the tool's access has %d bytes as JSON, more than %d", len(text), MaxSize)
	}
	return text, err
}

// Open reads the document that the value of Variable names.
func Open(value string) (*Context, error) {
	if n, ok := strings.CutPrefix(value, "/proc/self/fd/"); !ok || strings.Trim(n, "0123456789") != "" {
		return nil, fmt.Errorf("%s is %q, which doesn't name a descriptor of this process", Variable, value)
	}
	f, err := os.Open(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %s isn't a file", Variable, value)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	x, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", Variable, value, err)
	}
	return x, nil
}

// Parse reads a document.
func Parse(text []byte) (*Context, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it's larger than %d bytes", MaxSize)
	}
	var x Context
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, err
	}
	if x.Policy == nil {
		return nil, errors.New("it has no policy")
	}
	return &x, nil
}

// Environ is this process's environment without Variable, which an outer session has given to it alone.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, Variable+"=") })
}
