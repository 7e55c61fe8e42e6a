package program

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// ends returns the programs, scripts and unclear words to which a call leads, as the gate finds them: each call that a program runs is
// inspected in turn.
func ends(call Call, depth int) (all []string) {
	e := Inspect(&call)
	for _, u := range e.Unclear {
		all = append(all, "unclear "+u.Word)
	}
	for _, s := range e.Scripts {
		all = append(all, s.Shell+" "+inDir(s.Dir)+describeEnv(s.Env)+"'"+s.Text+"'")
	}
	for _, f := range e.Files {
		if f.Access != Read {
			all = append(all, map[Access]string{Write: "write ", Delete: "delete "}[f.Access]+inDir(f.Dir)+f.Path.Text)
		}
	}
	for _, c := range e.Calls {
		if inner := ends(c, depth+1); len(inner) > 0 && depth < 20 {
			all = append(all, inner...)
		} else {
			all = append(all, "run "+inDir(c.Dir)+describeEnv(c.Env)+describeWords(c.Argv))
		}
	}
	return all
}

func TestNested(t *testing.T) {
	for argv, want := range map[string]string{
		"env A=1 nice -n 5 timeout 9 ls -l":                              "run A=1 ls -l",
		"sudo -u x env -C /d nohup rm f":                                 "delete in /d: f",
		"xargs -0 env -i timeout 5 sh -c 'rm x'":                         "sh 'rm x'",
		"find . -exec nice env B=2 sed -i 1ex {} ;":                      "unclear ex; write {}",
		"env -S 'nice -5 stdbuf -oL tar' -cf a -I ./x f":                 "write a; run ./x <…>",
		"timeout 5 xargs -I{} nice {} x":                                 "unclear {}",
		"nice find d -execdir xargs sort -o out --compress-p ./x ;":      "unclear input of xargs; write in the folder of each file that find finds: out; run in the folder of each file that find finds: ./x <…>",
		"env -C a env -C b env -C c touch f":                             "write in a/b/c: f",
		"env A=1 B=2 env -u A env -i C=3 env ls":                         "run C=3 ls",
		"busybox nice busybox timeout 5 busybox sh -c id":                "sh 'id'",
		"git -C d bisect run env X=1 nice rm f":                          "delete in d: f",
		"flock l npx -y uv run python3 -c x":                             "write l; unclear x",
		"/lib64/ld-linux-x86-64.so.2 /usr/bin/env nice bash -lc 'x y'":   "bash 'x y'",
		"strace -f -o t env -- setsid -w make SHELL=./x":                 "write t; unclear SHELL=./x",
		"nohup setsid chrt -b 0 taskset -c 1 ionice -c3 stdbuf -o0 true": "run true",
		"env nice ls": "run ls",
	} {
		if got := strings.Join(ends(Call{Argv: parseWords(argv)}, 0), "; "); got != want {
			t.Errorf("%s\n got %s\nwant %s", argv, got, want)
		}
	}
}

// TestEveryday: of what agents do all day, hardly anything is unclear.
func TestEveryday(t *testing.T) {
	text := childtest.ReadFile(t, "testdata/everyday.txt")
	rows, unclear := 0, 0
	for line := range strings.Lines(string(text)) {
		if argv, _, ok := strings.Cut(line, " => "); ok {
			rows++
			if slices.ContainsFunc(ends(Call{Argv: parseWords(argv)}, 0), func(s string) bool { return strings.HasPrefix(s, "unclear ") }) {
				unclear++
			}
		}
	}
	if rows < 100 || unclear > 2 {
		t.Errorf("of %d everyday command lines, %d are unclear", rows, unclear)
	}
}

// TestFolders: what a call does in another folder is judged there.
func TestFolders(t *testing.T) {
	for argv, want := range map[string]string{
		"env -C /outside rm s*":                  "delete in /outside: s*",
		"env -C /outside rm \"$x\"":              "delete in /outside: $x",
		"env -C /outside cat s ./t*":             "read in /outside: s; read in /outside: ./t*",
		"env -C \"$d\" rm secret":                "delete in $d: secret",
		"env -C \"$d\" rm /x/secret":             "delete in $d: /x/secret",
		"env -C d ls":                            "read in d: .",
		"env -C d ls x":                          "read in d: x",
		"env -C d grep -r x":                     "read in d: .",
		"env -C d grep -rn x y":                  "read in d: y",
		"env -C d grep x":                        "nothing",
		"env -C d find -name secret -delete":     "read in d: .; delete in d: .",
		"env -C d rg x":                          "read in d: .",
		"env -C d rg x y":                        "read in d: y",
		"env -C d du -sh":                        "read in d: .",
		"env -C d tree":                          "read in d: .",
		"env -C d fd x":                          "read in d: .",
		"env -C / ls":                            "read in /: .",
		"env -C \"$d\" ls":                       "nothing",
		"env -C d tar xf /a.tar":                 "read in d: /a.tar; write in d: .",
		"env -C d git init":                      "write in d: .",
		"env -C . rm *.o":                        "nothing",
		"rm *.o":                                 "nothing",
		"git -c diff.external='env -u X' diff f": "unclear further arguments",
		"git -c alias.lfs=!env lfs id":           "unclear further arguments",
		"git grep -Oenv hi":                      "unclear further arguments",
		"git -c core.sshCommand=env fetch":       "unclear further arguments",
		"git -c alias.x=!xargs x":                "unclear x; unclear further arguments",
		"xargs -I{} -L1 env":                     "unclear input of xargs",
		"xargs -I{} env":                         "nothing",
	} {
		e := Inspect(&Call{Argv: parseWords(argv)})
		for len(e.Calls) > 0 {
			inner := Inspect(&e.Calls[0])
			e.Calls = e.Calls[1:]
			e.Add(inner)
		}
		if got := describe(e); got != want {
			t.Errorf("%s\n got %s\nwant %s", argv, got, want)
		}
	}
}

func TestHarmfulValue(t *testing.T) {
	for assigned, want := range map[string]bool{
		"NODE_OPTIONS=--max-old-space-size=4096":               false,
		"NODE_OPTIONS=--max-old-space-size=4096 --require=./x": true,
		"NODE_OPTIONS=--require ./x":                           true,
		"GOFLAGS=-mod=mod":                                     false,
		"GOFLAGS=-mod=mod -toolexec=./x":                       true,
		"GOCACHE=/tmp/x":                                       false,
		"CFLAGS=-O2 -g -Wall -Wextra -std=c++17 -fPIC -DX=1":   false,
		"CFLAGS=-O2 -Bx":                                       true,
		"CFLAGS=-fplugin=./x":                                  true,
		"CFLAGS=-Wl,-plugin,x":                                 true,
		"CFLAGS=-wrapper x":                                    true,
		"CFLAGS=-specs=x":                                      true,
		"CFLAGS=@x":                                            true,
		"LD_PRELOAD=":                                          true,
		"CI=true":                                              false,
	} {
		name, value, _ := strings.Cut(assigned, "=")
		if got := HarmfulValue(name, value); got != want {
			t.Errorf("HarmfulValue(%s, %s) = %v", name, value, got)
		}
	}
}

func TestRiskyVariable(t *testing.T) {
	for kind, names := range map[Kind]string{
		CommandLine:   "PAGER GIT_PAGER MANPAGER",
		CommandPrefix: "EDITOR VISUAL GIT_EDITOR GIT_SSH_COMMAND GIT_SEQUENCE_EDITOR LESSOPEN BROWSER FCEDIT GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS",
		Risky: `LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES PYTHONPATH PYTHONSTARTUP PYTHONHOME NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB RUBYOPT RUBYLIB
			JAVA_TOOL_OPTIONS BASH_ENV ENV GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT GIT_EXEC_PATH GIT_DIR GIT_TEMPLATE_DIR GIT_SSH GIT_PROXY_COMMAND PATH IFS HOME
			XDG_CONFIG_HOME npm_config_script_shell PIP_INDEX_URL CARGO_HOME RUSTC_WRAPPER GOFLAGS CC CXX MAKEFLAGS AWKPATH LUA_INIT PHPRC GCONV_PATH TAR_OPTIONS
			GREP_OPTIONS POSIXLY_CORRECT LESS SHELL TOOLGUARD_POLICY BASH_FUNC_x%% http_proxy`,
		Plain: "FOO LANG LC_ALL TERM CI DEBUG NODE_ENV GOOS GOARCH CGO_ENABLED PYTHONUNBUFFERED GIT_AUTHOR_NAME NO_COLOR VERSION V DESTDIR RUST_LOG USER TMPDIR path",
	} {
		for name := range strings.FieldsSeq(names) {
			if got := RiskyVariable(name); got != kind {
				t.Errorf("RiskyVariable(%s) = %d, want %d", name, got, kind)
			}
		}
	}
}

// TestTables parses every line: one with a mistake panics.
func TestTables(t *testing.T) {
	for name := range lines() {
		e := named(name)
		for option, o := range e.options {
			if option[0] != '-' && option[0] != '+' && option[0] != '%' {
				t.Errorf("%s has the option %q", name, option)
			}
			if o.value == mayHaveDigits && len(option) != 2 {
				t.Errorf("%s: only a letter may have digits: %s", name, option)
			}
		}
	}
	if len(lines()) < 500 {
		t.Errorf("only %d programs", len(lines()))
	}
}
