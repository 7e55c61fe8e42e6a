package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxValues is how many values of a call are judged at most. A call with more is denied.
const maxValues = 10_000

// The roles of arguments.
const (
	rolePath    = "path"
	rolePatch   = "patch"
	roleURL     = "url"
	roleCommand = "command"
	roleArgv    = "argv"
	roleCwd     = "cwd"
	roleText    = "text"
)

// value is a text, or a list of texts, of a call's arguments.
type value struct {
	key  string // the key that has it
	role string // "" for none
	text string
	list []string // of a list whose role is command or argv
	in   *object
}

// object is one object of the arguments: a command, its further arguments and its working directory are found together.
type object struct {
	parent *object
	key    string // that has the object
	cwd    []string
}

// dirs are the working directories that an object names, or the nearest object around it that names some.
func (o *object) dirs() []string {
	for ; o != nil; o = o.parent {
		if len(o.cwd) > 0 {
			return o.cwd
		}
	}
	return nil
}

var errTooMany = errors.New("the call has more arguments than can be judged")

// walker collects the values of a call's arguments.
type walker struct {
	d      *jsontext.Decoder
	roles  map[string]string // by name in lower case
	values []value
	cwds   []string // all working directories
	method string   // the HTTP method that the call names first, in upper case; "" for none
	odd    []string // names of arguments whose role needs a text and whose value is another one
}

// values returns the texts of a call's arguments with their roles. A nested value without a role of its own has that of what is around it.
func values(arguments json.RawMessage, roles map[string]string) (*walker, error) {
	w := &walker{d: jsontext.NewDecoder(bytes.NewReader(arguments)), roles: roles}
	return w, w.value("", "", nil)
}

func (w *walker) value(key, role string, in *object) error {
	switch w.d.PeekKind() {
	case '{':
		return w.object(key, role, in)
	case '[':
		return w.list(key, role, in)
	}
	t, err := w.d.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '"' {
		if t.Kind() == '0' && role != "" && role != roleText {
			w.odd = append(w.odd, key)
		}
		return nil
	}
	return w.add(value{key: key, role: role, text: t.String(), in: in})
}

func (w *walker) add(v value) error {
	if len(w.values) == maxValues {
		return errTooMany
	}
	if v.role == roleCwd && v.in != nil {
		v.in.cwd = append(v.in.cwd, v.text)
		w.cwds = append(w.cwds, v.text)
	}
	if w.method == "" && strings.EqualFold(v.key, "method") && strings.Trim(v.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == "" {
		w.method = strings.ToUpper(v.text)
	}
	w.values = append(w.values, v)
	return nil
}

// with returns the values of a role in each object.
func (w *walker) with(role string) map[*object][]value {
	m := map[*object][]value{}
	for _, v := range w.values {
		if v.role == role {
			m[v.in] = append(m[v.in], v)
		}
	}
	return m
}

func (w *walker) object(key, role string, in *object) error {
	if _, err := w.d.ReadToken(); err != nil {
		return err
	}
	o := &object{parent: in, key: fold(key)}
	for w.d.PeekKind() != '}' {
		t, err := w.d.ReadToken()
		if err != nil {
			return err
		}
		key, own := t.String(), role
		if r, ok := w.roles[fold(key)]; ok {
			own = r
		} else if role == rolePath && strings.ContainsAny(key, "/~") { // files by their names
			if err := w.add(value{key: key, role: rolePath, text: key, in: o}); err != nil {
				return err
			}
		}
		if err := w.value(key, own, o); err != nil {
			return err
		}
	}
	_, err := w.d.ReadToken()
	return err
}

// fold returns a key as it's compared: in lower case, with one form of letters that have several, as Go's JSON does.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }

// list reads a list. One of texts that is a command line is one value.
func (w *walker) list(key, role string, in *object) error {
	if _, err := w.d.ReadToken(); err != nil {
		return err
	}
	first := len(w.values)
	for w.d.PeekKind() != ']' {
		if err := w.value(key, role, in); err != nil {
			return err
		}
	}
	if _, err := w.d.ReadToken(); err != nil {
		return err
	}
	if role != roleCommand && role != roleArgv {
		return nil
	}
	argv := value{key: key, role: role, in: in, list: []string{}}
	rest := w.values[first:]
	for _, v := range rest {
		if v.in == in && v.role == role && v.list == nil {
			argv.list = append(argv.list, v.text)
		}
	}
	w.values = append(w.values[:first], slices.DeleteFunc(rest, func(v value) bool { return v.in == in && v.role == role && v.list == nil })...)
	w.values = append(w.values, argv)
	return nil
}
