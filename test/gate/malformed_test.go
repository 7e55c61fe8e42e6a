//go:build linux

package gate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The limits for anything that is no call. The time is that of the processor, as the machine may be busy.
const (
	mostTime   = 10 * time.Second
	mostMemory = 256 << 20
)

// bounded runs gate, and checks its time and memory.
func bounded(t *testing.T, s *scene, policy string, in []byte, flags ...string) outcome {
	t.Helper()
	out, used := measure(t, s.gate(policy, flags...), in)
	if used.time > mostTime {
		t.Errorf("it took %v", used.time)
	}
	if used.memory > mostMemory {
		t.Errorf("it took %d MiB", used.memory>>20)
	}
	return out
}

func nested(depth int, open, inner, end string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
}

// malformed is text that is no call. The name says what is wrong.
// It's a function, as the process that measures others is this program, too.
func malformed() map[string]string {
	return map[string]string{
		"empty":                       ``,
		"blank":                       ` `,
		"truncated":                   `{"id":"1","tool":"Read","arguments":{"file_path":"a.t`,
		"truncated object":            `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"}`,
		"list":                        `[{"id":"1","tool":"Read","arguments":{}}]`,
		"text":                        `"Read"`,
		"null":                        `null`,
		"two values":                  `{"id":"1","tool":"Read","arguments":{}} {"id":"2","tool":"Read","arguments":{}}`,
		"trailing comma":              `{"id":"1","tool":"Read","arguments":{},}`,
		"comment":                     `{"id":"1","tool":"Read","arguments":{}} // x`,
		"single quotes":               `{'id':'1','tool':'Read','arguments':{}}`,
		"no id":                       `{"tool":"Read","arguments":{}}`,
		"empty id":                    `{"id":"","tool":"Read","arguments":{}}`,
		"no tool":                     `{"id":"1","arguments":{}}`,
		"no arguments":                `{"id":"1","tool":"Read"}`,
		"arguments are text":          `{"id":"1","tool":"Read","arguments":"{}"}`,
		"arguments are a list":        `{"id":"1","tool":"Read","arguments":[]}`,
		"arguments are null":          `{"id":"1","tool":"Read","arguments":null}`,
		"id is a number":              `{"id":1,"tool":"Read","arguments":{}}`,
		"tool is a list":              `{"id":"1","tool":["Read"],"arguments":{}}`,
		"owner is text":               `{"id":"1","tool":"Read","arguments":{},"owner":"true"}`,
		"depth is text":               `{"id":"1","tool":"Read","arguments":{},"depth":"0"}`,
		"depth is negative":           `{"id":"1","tool":"Read","arguments":{},"depth":-1}`,
		"depth is a fraction":         `{"id":"1","tool":"Read","arguments":{},"depth":0.5}`,
		"depth is huge":               `{"id":"1","tool":"Read","arguments":{},"depth":99999999999999999999}`,
		"source is unknown":           `{"id":"1","tool":"Read","arguments":{},"source":"remote"}`,
		"unknown key":                 `{"id":"1","tool":"Read","arguments":{},"extra":1}`,
		"duplicate key":               `{"id":"1","tool":"Read","tool":"Bash","arguments":{}}`,
		"duplicate arguments":         `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"},"arguments":{"file_path":"/etc/shadow"}}`,
		"duplicate key in arguments":  `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt","file_path":"/etc/shadow"}}`,
		"duplicate key, escaped":      `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt","file\u005fpath":"/etc/shadow"}}`,
		"duplicate key, deep":         `{"id":"1","tool":"Read","arguments":{"x":[{"y":{"path":"a.txt","path":"b.txt"}}]}}`,
		"keys differ in case":         `{"id":"1","tool":"Read","Tool":"Bash","arguments":{}}`,
		"keys differ in case, long s": `{"id":"1","tool":"Read","arguments":{},"session":"a","ſession":"b"}`,
		"key in another case":         `{"ID":"1","tool":"Read","arguments":{}}`,
		"not UTF-8":                   "{\"id\":\"1\",\"tool\":\"Read\",\"arguments\":{\"file_path\":\"a\xff\"}}",
		"half a surrogate":            `{"id":"1","tool":"Read","arguments":{"file_path":"a\ud800"}}`,
		"control character":           "{\"id\":\"1\",\"tool\":\"Read\",\"arguments\":{\"file_path\":\"a\x01\"}}",
		"byte order mark":             "\ufeff" + `{"id":"1","tool":"Read","arguments":{}}`,
		"NUL":                         "{\"id\":\"1\",\x00\"tool\":\"Read\",\"arguments\":{}}",
		"257 levels":                  `{"id":"1","tool":"x","arguments":{"a":` + nested(255, "[", "1", "]") + `}}`,
		"a million levels":            `{"id":"1","tool":"x","arguments":{"a":` + strings.Repeat("[", 1_000_000),
		"a million objects":           `{"id":"1","tool":"x","arguments":` + strings.Repeat(`{"a":`, 1_000_000),
		"a long number":               `{"id":"1","tool":"x","arguments":{},"depth":` + strings.Repeat("9", 1<<20) + `}`,
		"8 MiB and a byte":            `{"id":"1","tool":"x","arguments":{"a":"` + strings.Repeat("a", 8<<20) + `"}}`,
		"64 MiB":                      `{"id":"1","tool":"x","arguments":{"a":"` + strings.Repeat("a", 64<<20) + `"}}`,
		"64 MiB of blanks":            strings.Repeat(" ", 64<<20),
		"64 MiB of brackets":          strings.Repeat("[", 64<<20),
	}
}

const nextCall = `{"id":"next","tool":"t_read","arguments":{"path":"a.txt"}}`

// TestMalformed: what is no call is an error with nothing on standard output, or a denial.
func TestMalformed(t *testing.T) {
	s := newScene(t)
	s.write(t, "agree", agreePolicy)
	for name, text := range malformed() {
		t.Run(name, func(t *testing.T) {
			out := bounded(t, s, "agree", []byte(text))
			switch out.code {
			case 2:
				if len(out.stdout) > 0 || len(out.stderr) == 0 || len(out.stderr) > 4096 {
					t.Errorf("it printed %.200q, and %.200q", out.stdout, out.stderr)
				}
			case 1:
				if a := parseAnswers(t, out.stdout); len(a) != 1 || a[0].Decision != "deny" {
					t.Errorf("it printed %.200q", out.stdout)
				}
			default:
				t.Errorf("exit status %d", out.code)
			}
		})
	}
}

// TestMalformedLines: with --batch, a line that is no call is denied, and the next line is answered all the same.
func TestMalformedLines(t *testing.T) {
	s := newScene(t)
	s.write(t, "agree", agreePolicy)
	var in bytes.Buffer
	var names []string
	for name, text := range malformed() {
		if strings.TrimSpace(text) != "" {
			names = append(names, name)
			in.WriteString(text + "\n" + nextCall + "\n")
		}
	}
	out := bounded(t, s, "agree", in.Bytes(), "--batch")
	all := parseAnswers(t, out.stdout)
	if out.code != 2 || len(all) != 2*len(names) {
		t.Fatalf("exit status %d, %d answers to %d lines: %.200s", out.code, len(all), 2*len(names), out.stderr)
	}
	for i, name := range names {
		if a := all[2*i]; a.ID != nil || a.Decision != "deny" || a.Reason != "bad_call" {
			t.Errorf("%s: %v", name, a)
		}
		if a := all[2*i+1]; a.ID == nil || *a.ID != "next" || a.Decision != "allow" {
			t.Errorf("after %s: %v", name, a)
		}
	}
}

// TestLargeCalls: calls at the limits are answered.
func TestLargeCalls(t *testing.T) {
	s := newScene(t)
	s.write(t, "plain", "version = 1\n[access]\nfs = [{ path = \".\", read = true, write = true, execute = true }]\n")
	const most = 8 << 20
	call := func(tool, arguments string) string {
		return `{"id":"1","tool":"` + tool + `","arguments":` + arguments + `}`
	}
	fill := func(format, unit string) string { // format with as many units as fit into a call
		return fmt.Sprintf(format, strings.Repeat(unit, (most-len(format)-200)/len(unit)))
	}
	for name, test := range map[string]struct {
		text string
		want string // the decisions that are right
	}{
		"256 levels":            {call("x", `{"a":`+nested(254, "[", `"b"`, "]")+`}`), "allow"},
		"256 levels to a path":  {call("x", `{"path":`+nested(254, "[", `"../out/x"`, "]")+`}`), "deny"},
		"8 MiB of text":         {call("Write", fill(`{"file_path":"a.txt","content":"%s"}`, "a")), "allow"},
		"8 MiB of blanks":       {call("Read", fill(`{"file_path":"a.txt"%s}`, " ")), "allow"},
		"8 MiB of a path":       {call("Read", fill(`{"file_path":"%s"}`, "a/")), "deny"},
		"8 MiB of dots":         {call("Read", fill(`{"file_path":"%s"}`, "../")), "deny"},
		"8 MiB of percents":     {call("Read", fill(`{"file_path":"%s"}`, "%%25")), "deny ask"},
		"8 MiB of paths":        {call("x", fill(`{"paths":["a.txt"%s]}`, `,"a.txt"`)), "allow deny"},
		"8 MiB of keys":         {call("x", manyKeys(most-300)), "allow deny"},
		"8 MiB of a command":    {call("Bash", fill(`{"command":"echo %s"}`, "a ")), "allow ask deny"},
		"8 MiB of commands":     {call("Bash", fill(`{"command":"%s"}`, "ls;")), "allow ask deny"},
		"8 MiB of pipes":        {call("Bash", fill(`{"command":"ls%s"}`, "|ls")), "allow ask deny"},
		"8 MiB of subshells":    {call("Bash", fill(`{"command":"%s"}`, "(")), "ask deny"},
		"8 MiB of substitution": {call("Bash", fill(`{"command":"%s"}`, "$(")), "ask deny"},
		"8 MiB of braces":       {call("Bash", fill(`{"command":"echo %s"}`, "{a,b}")), "allow ask deny"},
		"8 MiB of quotes":       {call("Bash", fill(`{"command":"%s"}`, `'`)), "allow ask deny"},
		"8 MiB of redirections": {call("Bash", fill(`{"command":"ls%s"}`, " >a")), "allow ask deny"},
		"8 MiB of argv":         {call("shell", fill(`{"command":["ls"%s]}`, `,"a"`)), "allow ask deny"},
		"8 MiB of evals":        {call("Bash", fill(`{"command":"%s"}`, "eval ")), "allow ask deny"},
		"8 MiB of envs":         {call("Bash", fill(`{"command":"%s ls"}`, "env ")), "allow ask deny"},
		"8 MiB of a patch":      {call("patch_file", fill(`{"patch":"%s"}`, `--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n`)), "allow ask deny"},
		"a range of braces":     {call("Bash", `{"command":"echo {1..999999999}{1..999999999}"}`), "allow ask deny"},
		"many braces":           {call("Bash", `{"command":"echo `+strings.Repeat("{a,b}", 64)+`"}`), "allow ask deny"},
		"shells within shells":  {call("Bash", `{"command":"`+strings.Repeat("sh -c ", 1000)+`ls"}`), "allow ask deny"},
	} {
		t.Run(name, func(t *testing.T) {
			if len(test.text) > most {
				t.Fatalf("%d bytes", len(test.text))
			}
			out := bounded(t, s, "plain", []byte(test.text))
			all := parseAnswers(t, out.stdout)
			if len(all) != 1 || !strings.Contains(" "+test.want+" ", " "+all[0].Decision+" ") {
				t.Fatalf("exit status %d: %.300s%.300s", out.code, out.stdout, out.stderr)
			}
			if a := all[0]; len(a.Message) > 20_000 || len(a.ToModel) > 20_000 {
				t.Errorf("the message has %d bytes, error_to_model %d", len(a.Message), len(a.ToModel))
			}
		})
	}
}

// manyKeys is an object with different keys.
func manyKeys(size int) string {
	var b bytes.Buffer
	b.WriteString(`{"a":1`)
	for i := 0; b.Len() < size-20; i++ {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	b.WriteString("}")
	return b.String()
}

// TestBatchIsLong: 64 MiB of calls are answered, and memory doesn't grow with them.
func TestBatchIsLong(t *testing.T) {
	s := newScene(t)
	s.write(t, "agree", agreePolicy)
	line := `{"id":"1","tool":"t_create","arguments":{"path":"a.txt","content":"` + strings.Repeat("a", 1<<20) + `"}}` + "\n"
	out := bounded(t, s, "agree", []byte(strings.Repeat(line, 64)), "--batch")
	if all := parseAnswers(t, out.stdout); out.code != 0 || len(all) != 64 || all[63].Decision != "allow" {
		t.Errorf("exit status %d, %d answers", out.code, len(all))
	}
}
