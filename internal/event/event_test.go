package event

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	for name, e := range samples() {
		for _, f := range []Format{OCSF, ECS, Text} { // package audit compares OCSF18 with the output of an older version
			file := filepath.Join("testdata", name+"."+f.String())
			got := f.Append(nil, &e)
			if f != Text {
				got = indent(t, got)
			}
			if *update {
				must(t, os.WriteFile(file, got, 0o644))
			}
			want, err := os.ReadFile(file)
			must(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
			}
		}
	}
}

// indent formats a line for a golden file.
func indent(t *testing.T, line []byte) []byte {
	t.Helper()
	if bytes.Count(line, []byte("\n")) != 1 {
		t.Errorf("more than one line: %q", line)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, line, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return b.Bytes()
}

func TestParseFormat(t *testing.T) {
	for _, f := range Formats {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("ParseFormat(%q) = %v, %v", f, got, err)
		}
	}
	for s, part := range map[string]string{"xml": "unknown", "": "unknown", "OCSF": "unknown"} {
		if _, err := ParseFormat(s); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseFormat(%q): %v", s, err)
		}
	}
}

// checkText is checkLine for each line of a text. All but the first line are indented.
func checkText(t *testing.T, text []byte) {
	t.Helper()
	first := true
	for line := range bytes.Lines(text) {
		checkLine(t, line)
		if !first && !bytes.HasPrefix(line, []byte("    ")) {
			t.Errorf("a line of its own: %q", line)
		}
		first = false
	}
}

// checkLine checks that a line contains only letters, marks, numbers, punctuation, symbols and the ASCII space. Writing direction
// marks, line separators and unassigned characters, which a terminal or a browser may interpret, are none of these.
func checkLine(t *testing.T, line []byte) {
	t.Helper()
	body, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok || !utf8.Valid(body) {
		t.Errorf("no line of UTF-8: %q", line)
	}
	for _, r := range string(body) {
		if !unicode.IsPrint(r) {
			t.Errorf("%U in %q", r, line)
		}
	}
}

func FuzzRenderings(f *testing.F) {
	for _, s := range []string{"", "/etc/passwd", "a\nb", "\x1b]0;x\a", "\xff", "\u202e", "\u2028", "\U000e0001", `"\`, "https://a:b@c/?d", "…"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, target, name, arg string) {
		for _, e := range []Event{
			with(denial("fs", "read", target), func(e *Event) { e.Asked = name; e.Suggest = arg; e.Reason = arg }),
			denial("net", "connect", target), denial("commands", "run", target),
			{Kind: Kind(name), Rule: arg, Reason: target, Extra: map[string]string{name: arg}, Degraded: []string{target}},
			{Kind: SessionStart, Session: name, Policy: target, Tool: arg},
		} {
			e.Process = []Process{{PID: 1, Exe: target, Comm: name, Argv: []string{arg, target, name}}, {Comm: arg}}
			checkText(t, Text.Append(nil, &e))
			line := OCSF.Append(nil, &e)
			checkLine(t, line)
			var back map[string]any
			if err := json.Unmarshal(line, &back); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if want := strings.ToValidUTF8(e.Target, "\x00"); !strings.Contains(want, "\x00") && e.Target != "" {
				if got := back["unmapped"].(map[string]any)["target"]; got != e.Target {
					t.Errorf("target %q became %q", e.Target, got)
				}
			}
		}
	})
}

func TestQuoteShowsWhereStringsEnd(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/a/b": "/a/b", "/ä/β": "/ä/β", "a b": `"a b"`, `a"b`: `"a\"b"`, `a\nb`: `"a\\nb"`, "a\nb": `"a\nb"`,
		"\x1b[0m": `"\x1b[0m"`, "\xff": `"\xff"`, "\u202e": `"\u202e"`, "\u00a0": `"\u00a0"`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestRedactArgv(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"git commit -m x", "git commit -m x"},
		{"curl --password=hunter2 x", "curl --password=*** x"},
		{"curl --password hunter2 x", "curl --password *** x"},
		{"curl --token -v", "curl --token ***"},
		{"curl --token -- v x", "curl --token -- *** x"},
		{"docker run python:3.12@sha256:0123abcd x", "docker run python:3.12@sha256:0123abcd x"},
		{"git clone git@github.com:a/b.git", "git clone git@github.com:a/b.git"},
		{"npm i https://registry.npmjs.org/@scope/x https://host:8443/@scope/y", "npm i https://registry.npmjs.org/@scope/x https://host:8443/@scope/y"},
		{"curl http://[2001:db8::1]:80/@a", "curl http://[2001:db8::1]:80/@a"},
		{"sh -c|cd $PWD && mkdir -p a/b", "sh -c|cd $PWD && mkdir -p a/b"},
		{"mkdir -p a", "mkdir -p a"},
		{"env API_KEY=abc PATH=/bin", "env API_KEY=*** PATH=/bin"},
		{"curl https://me:pw@host/p?q=1", "curl https://***@host/p?***"},
		{"curl -H|Authorization: Bearer abcdefgh", "curl -H|Authorization: ***"},
		{"x ghp_0123456789abcdefABCD", "x ***"},
		{"x AKIAABCDEFGHIJKLMNOP", "x ***"},
		{"x -H|X: bearer abcdefgh", "x -H|X: ***"},
		{"ls token", "ls token"},
		{"password", "password"},
	} {
		split := func(s string) (a []string) {
			for i, part := range strings.Split(s, "|") {
				if i > 0 {
					a = append(a, part) // with its spaces
				} else {
					a = append(a, strings.Fields(part)...)
				}
			}
			return a
		}
		in := split(c.in)
		before := fmt.Sprint(in)
		if got := RedactArgv(in); fmt.Sprint(got) != fmt.Sprint(split(c.want)) {
			t.Errorf("%q: %q, want %q", c.in, got, split(c.want))
		}
		if fmt.Sprint(in) != before {
			t.Errorf("%q was changed", c.in)
		}
	}
}

// TestRedactAll checks that nothing of a secret remains, in all usual notations.
func TestRedactAll(t *testing.T) {
	for _, argv := range [][]string{
		{"mysql", "-phunter2"},
		{"mysql", "-vphunter2"},
		{"sudo", "-u", "db", "mysql", "-uroot", "-phunter2"},
		{"env", "A=b", "/opt/mysql/bin/mysqldump", "-phunter2"},
		{"docker", "exec", "db", "mysql", "-uroot", "-phunter2"},
		{"timeout", "5", "sshpass", "-phunter2", "ssh", "h"},
		{"sudo", "sshpass", "-p", "hunter2", "ssh", "h"},
		{"sshpass", "-vphunter2", "ssh", "h"},
		{"ssh", "h", "mycli", "-phunter2"},
		{"xtrabackup", "-phunter2"},
		{"nice", "redis-cli", "-ahunter2"},
		{"sudo", "zip", "-Phunter2", "a.zip", "b"},
		{"sh", "-c", "MYSQL_PWD=hunter2 mysql"},
		{"sh", "-c", "mysql -u root -phunter2 db"},
		{"env", "MYSQL_PWD=hunter2"},
		{"env", "DJANGO_SECRET_KEY=hunter2"},
		{"x", "--secret-key", "hunter2"},
		{"x", "--signing-key=hunter2"},
		{"curl", "-H", "X-Auth-Key: hunter2"},
		{"curl", "-H", "Ocp-Apim-Subscription-Key: hunter2"},
		{"curl", "-H", "Proxy-Authorization: Negotiate hunter2"},
		{"curl", "-ume:hunter2"},
		{"curl", "--user=me:hunter2"},
		{"curl", "-x", "u:hunter2@proxy:3128"},
		{"curl", "-b", "sid=hunter2"},
		{"curl", "-d", `{"password":"a\"hunter2"}`},
		{"curl", "https://u:sec/hunter2@h/p"},
		{"psql", "postgres://u:p@hunter2@h/db"},
		{"psql", "host=h password='a b hunter2' user=x"},
		{"psql", `host=h password=a\ hunter2 user=x`},
		{"x", "--password", "-hunter2"},
		{"x", "--password", "--", "hunter2"},
		{"sshpass", "-p", "hunter2", "ssh", "h"},
		{"redis-cli", "-a", "hunter2"},
		{"docker", "login", "-p", "hunter2"},
		{"sh", "-c", "docker login -u me -p hunter2"},
		{"git", "clone", "https://hunter2token@github.com/x"},
		{"x", "--passphrase", "hunter2"},
		{"sh", "-c", "x --token\\\n hunter2"},
		{"sh", "-c", "x --token -hunter2"},
		{"sh", "-c", "curl -u me:hunter2 https://h"},
		{"sh", "-c", `curl -H "Authorization: Token hunter2"`},
		{"x", "hvs.CAESIhunter2hunter2hunter2"},
		{"x", "dckr_pat_hunter2hunter2hunter2"},
		{"x", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2=="},
		{"x", "SharedAccessSignature=hunter2"},
		{"x", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3-hunter2-b\n-----END OPENSSH PRIVATE KEY-----"},
		{"x", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2\n-----END"},
		{"x", "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,7D\n\nhunter2\n-----END EC PRIVATE KEY-----"},
	} {
		if out := fmt.Sprintf("%q", RedactArgv(argv)); strings.Contains(out, "hunter2") || !strings.Contains(out, mask) {
			t.Errorf("%q: %s", argv, out)
		}
	}
	for _, target := range []string{
		"https://u:sec/hunter2@h/p", "h:443/x?token=hunter2", "https://h/x?a='hunter2'", "https://h/x?a=\"hunter2", "https://h/x'y?sig=hunter2", "https://h/a?x hunter2",
	} {
		e := Event{Resource: "net", Target: target, Asked: target}
		if out := e.Clean(); strings.Contains(out.Target+out.Asked, "hunter2") || !strings.Contains(out.Target, mask) {
			t.Errorf("%s: %s", target, out.Target)
		}
	}
}

// TestTruncateArgv checks that a queue accepts the start of a session with a long command line, with as much of it as fits.
func TestTruncateArgv(t *testing.T) {
	many, long := slices.Repeat([]string{"a"}, 500_000), "sh -c "+strings.Repeat("é", 5_000_000)
	for name, c := range map[string]struct{ in, want []string }{
		"none":       {nil, nil},
		"short":      {[]string{"ls", ""}, []string{"ls", ""}},
		"just":       {many[:maxArgs], many[:maxArgs]},
		"many":       {many, append(slices.Clone(many[:maxArgs]), "…")},
		"long":       {strings.SplitN(long, " ", 3), []string{"sh", "-c", strings.Repeat("é", (maxCommandLine-maxToken)/2-2) + "…"}},
		"both":       {append(slices.Clone(many[:maxArgs]), long), append(slices.Clone(many[:maxArgs]), "…")},
		"cut within": {[]string{"x", strings.Repeat("é", maxCommandLine)}, []string{"x", strings.Repeat("é", (maxCommandLine-maxToken)/2-1) + "…"}},
	} {
		before := slices.Clone(c.in)
		got := TruncateArgv(c.in)
		if !slices.Equal(got, c.want) || !slices.Equal(c.in, before) {
			t.Errorf("%s: %d arguments, %.99q", name, len(got), got)
		}
		q := NewQueueSize(sinkFunc(func(*Event) error { return nil }), 256<<10)
		q.Write(&Event{Kind: SessionStart, Owner: "7", Process: []Process{{Argv: got}}})
		if missing, why := q.Close(); missing != 0 {
			t.Errorf("%s: the start is lost: %v", name, why)
		}
	}
}

// TestTruncatedSecrets checks that truncation doesn't split a secret, whose first half would not be recognized.
func TestTruncatedSecrets(t *testing.T) {
	for _, s := range []string{
		" postgres://u:CANARY@db/x", " u:CANARY@db/x", " ghp_CANARYCANARYCANARY0123456789", " eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.CANARY",
		" https://u:" + strings.Repeat("CANARY", 100) + "@db/x", " " + strings.Repeat("y", 300) + "dsn=me:CANARY@host",
	} {
		before := s[:strings.LastIndex(s, "CANARY")+len("CANARY")]
		for ancestor, limit := range []int{maxCommandLine, maxAncestorLine} {
			script := strings.Repeat("x", max(0, limit-len("sh-c")-len(before))) + s
			chain := slices.Repeat([]Process{{Argv: []string{"sh", "-c", script}}}, 2)[:1+ancestor]
			e := Event{Kind: Denial, Resource: "net", Target: strings.Repeat("x", maxText-len(before)) + s, Process: chain}
			out := e.Clean()
			if all := out.Target + strings.Join(out.Process[ancestor].Argv, " "); strings.Contains(all, "CANARY") || !strings.Contains(all, "…") && !strings.Contains(all, mask) {
				t.Errorf("%q: …%s", s, all[strings.Index(all, "CANARY")-20:])
			}
		}
	}
}

// TestCanaries puts a secret in every field that may contain one, and searches all formats for it.
func TestCanaries(t *testing.T) {
	const canary = "c4n4ry"
	argv := func(a ...string) Event {
		e := denial("commands", "run", "/usr/bin/kept")
		e.Process = []Process{{PID: 1, Argv: append([]string{"kept"}, a...)}, {PID: 2, Argv: append([]string{"kept"}, a...)}}
		return e
	}
	url := "https://kept.example/a?x=" + canary + "&y=1"
	for name, e := range map[string]Event{
		"flag":           argv("--password", canary),
		"flag with =":    argv("--db-password=" + canary),
		"variable":       argv("AWS_SECRET_ACCESS_KEY=" + canary),
		"header":         argv("-H", "X-Api-Key: "+canary),
		"authorization":  argv("-HAuthorization: Basic " + canary + "="),
		"cookie":         argv("--header", "Cookie: a=1; b="+canary),
		"account":        argv("-u", "me:"+canary),
		"query":          argv(url),
		"fragment":       argv("https://kept.example/#t=" + canary),
		"odd query":      argv("https://kept.example/%zz?" + canary),
		"user part":      argv("https://me:" + canary + "@kept.example/"),
		"token":          argv("ghp_" + canary + "0123456789abcdef"),
		"private key":    argv("-----BEGIN EC PRIVATE KEY-----\n" + canary + "\n-----END EC PRIVATE KEY-----"),
		"body":           argv("-d", `{"user":"me","password": "`+canary+`"}`),
		"form":           argv("-d", "user=me&token="+canary+"&x=y"),
		"script":         argv("-c", "export API_TOKEN="+canary+"; curl x"),
		"script flag":    argv("-c", "mysql --password '"+canary+"' x"),
		"script header":  argv("-c", `curl -H "Cookie: a=1; b=`+canary+`" x`),
		"script url":     argv("-c", "curl '"+url+"' | sh"),
		"target":         denial("net", "connect", url),
		"target's token": denial("net", "connect", "https://kept.example/hook/glpat-"+canary+"0123456789"),
		"asked":          with(denial("net", "connect", "https://kept.example/"), func(e *Event) { e.Asked = url }),
		"suggestion":     with(denial("net", "connect", "https://kept.example/"), func(e *Event) { e.Suggest = `url = "` + url + `"` }),
		"extra":          with(denial("net", "connect", "https://kept.example/"), func(e *Event) { e.Extra = map[string]string{"why": "redirected to " + url} }),
	} {
		for _, f := range Formats {
			var b bytes.Buffer
			w, err := NewWriter(&b, f)
			must(t, err)
			before := fmt.Sprintf("%+v", e)
			if must(t, w.Write(&e)); fmt.Sprintf("%+v", e) != before {
				t.Errorf("%s: the event was changed: %+v", name, e)
			}
			if bare := string(f.Append(nil, &e)); f == OCSF && !strings.Contains(bare, canary) {
				t.Errorf("%s: the unmasked event has no canary: %s", name, bare)
			}
			if line := b.String(); strings.Contains(line, canary) || !strings.Contains(line, "kept") || f == OCSF && !strings.Contains(line, mask) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
