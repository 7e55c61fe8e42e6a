package imports

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// object is a table of the source. It knows which of its keys were read, and the importer lists the others at the end, so that none is
// dropped in silence.
type object struct {
	im   *importer
	path string
	m    map[string]any
	read map[string]bool
}

func (o *object) at(key string) string {
	if o.path == "" {
		return tomltext.Key(key)
	}
	return o.path + "." + tomltext.Key(key)
}

func (o *object) has(key string) bool { return o.m[key] != nil }

func (o *object) get(key string) any {
	o.read[key] = true
	return o.m[key]
}

// text returns a string, "" where it isn't given. If words are given, it must be one of them.
func (o *object) text(key string, words ...string) string {
	v := o.get(key)
	s, ok := v.(string)
	switch {
	case v == nil:
		return ""
	case !ok:
		o.im.fail(o.at(key), "it isn't a string")
	case len(words) > 0 && !slices.Contains(words, s):
		o.im.fail(o.at(key), "%s is none of %s", tomltext.Quote(s), strings.Join(words, ", "))
	}
	return s
}

func (o *object) flag(key string) (on, given bool) {
	v := o.get(key)
	on, ok := v.(bool)
	if v != nil && !ok {
		o.im.fail(o.at(key), "it's neither true nor false")
	}
	return on, ok
}

// number returns a whole number from 1 on, 0 where it isn't given.
func (o *object) number(key string) int {
	switch v := o.get(key).(type) {
	case nil:
		return 0
	case int64:
		if v >= 1 && v <= 1e9 {
			return int(v)
		}
	}
	o.im.fail(o.at(key), "it isn't a whole number from 1 to 1000000000")
	return 0
}

func (o *object) texts(key string) (list []string, given bool) {
	v := o.get(key)
	if v == nil {
		return nil, false
	}
	items, ok := v.([]any)
	if !ok {
		o.im.fail(o.at(key), "it isn't a list")
	}
	for _, x := range items {
		s, ok := x.(string)
		if !ok {
			o.im.fail(o.at(key), "an element isn't a string")
		}
		list = append(list, s)
	}
	return list, true
}

// object returns a table, an empty one where it isn't given.
func (o *object) object(key string) *object { return o.im.object(o.get(key), o.at(key)) }

// object returns the table at a path, the same one each time.
func (i *importer) object(v any, path string) *object {
	m, ok := v.(map[string]any)
	if v != nil && !ok {
		i.fail(path, "it isn't a table")
	}
	if o := i.byPath[path]; o != nil {
		return o
	}
	o := &object{im: i, path: path, m: m, read: map[string]bool{}}
	i.byPath[path], i.objects = o, append(i.objects, o)
	return o
}

// objects returns a list of tables.
func (o *object) objects(key string) []*object {
	v := o.get(key)
	items, ok := v.([]any)
	if v != nil && !ok {
		o.im.fail(o.at(key), "it isn't a list")
	}
	out := make([]*object, len(items))
	for n, x := range items {
		out[n] = o.im.object(x, fmt.Sprintf("%s[%d]", o.at(key), n))
	}
	return out
}

// keys returns the names of the keys in order.
func (o *object) keys() []string { return slices.Sorted(maps.Keys(o.m)) }

// unrelated marks keys that say nothing about what tools may do, with all that is in them.
func (o *object) unrelated(keys ...string) {
	for _, key := range keys {
		o.read[key] = true
	}
}

// listed marks all keys: one line is about the whole table.
func (o *object) listed() { o.unrelated(o.keys()...) }

// leaveUnread lists the keys of all tables that weren't read.
func (i *importer) leaveUnread() {
	for _, o := range i.objects {
		for _, key := range o.keys() {
			if o.m[key] != nil && !o.read[key] {
				i.leave(o.at(key), "no equivalent, left out")
			}
		}
	}
}
