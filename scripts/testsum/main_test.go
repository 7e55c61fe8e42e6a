package main

import (
	"os"
	"strings"
	"testing"
)

// A run is good only if each test passed, ended, and ran where it has to, in whatever order its files are read.
func TestRun(t *testing.T) {
	const (
		begin   = `{"Action":"start","Package":"x:p"}` + "\n" + `{"Action":"run","Package":"x:p","Test":"TestA"}` + "\n"
		passed  = begin + `{"Action":"pass","Package":"x:p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"x:p"}` + "\n"
		failed  = begin + `{"Action":"fail","Package":"x:p","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"x:p"}` + "\n"
		skipped = begin + `{"Action":"output","Package":"x:p","Test":"TestA","Output":"    a_test.go:1: needs two\n"}` + "\n" +
			`{"Action":"skip","Package":"x:p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"x:p"}` + "\n"
		other = `{"Action":"start","Package":"x:q"}` + "\n" + `{"Action":"run","Package":"x:q","Test":"TestB"}` + "\n" +
			`{"Action":"pass","Package":"x:q","Test":"TestB"}` + "\n" + `{"Action":"pass","Package":"x:q"}` + "\n"
		dies = begin + `{"Action":"fail","Package":"x:p"}` + "\n"
	)
	for name, c := range map[string]struct {
		files []string
		must  string
		want  string // part of the error; "" for none
	}{
		"it passed":                             {[]string{passed}, "f *", ""},
		"it failed":                             {[]string{failed, other}, "f *", "1 tests failed"},
		"it failed, and passed elsewhere":       {[]string{failed, passed}, "f *", "1 tests failed"},
		"it was skipped":                        {[]string{skipped, other}, "f *", "not met"},
		"it was skipped where it may be":        {[]string{skipped, other}, "f q.*\ng *", ""},
		"it was skipped, and is an exception":   {[]string{skipped, other}, "f *\n!p.TestA", ""},
		"it was skipped, then ran":              {[]string{skipped, passed}, "f *", ""},
		"it ran, then was skipped":              {[]string{passed, skipped}, "f *", ""},
		"it was skipped, then failed":           {[]string{skipped, failed, other}, "f *", "1 tests failed"},
		"it didn't end":                         {[]string{begin, other}, "f *", "1 did not end"},
		"its package failed as it ran":          {[]string{dies, other}, "f *", "1 did not end"},
		"nothing that has to run ran":           {[]string{passed}, "f q.*", "not met"},
		"nothing ran":                           {[]string{""}, "f *", "no test ran"},
		"nothing ran, and nothing has to":       {[]string{""}, "g *", "no test ran"},
		"a line that isn't JSON is passed over": {[]string{"vm: up\n" + passed}, "f *", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var args []string
			for i, text := range append([]string{c.must}, c.files...) {
				file := dir + "/" + string(rune('0'+i))
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, "linux="+file)
			}
			err := run(dir+"/0", "", "", map[string][]string{"linux": {"f"}}, args[1:])
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A failed test is named with the line that says what failed, not with what was printed before and after.
func TestFirstFailure(t *testing.T) {
	for name, output := range map[string][]string{
		"    a_test.go:3: got 1, want 2":   {"=== RUN   TestA\n", "some log\n", "    a_test.go:3: got 1, want 2\n", "    a_test.go:4: more\n"},
		"FAIL: testdata/a.txt:7: no match": {"> stderr x\n", "            FAIL: testdata/a.txt:7: no match\n", "--- FAIL: TestA (0.00s)\n"},
		"panic: it went wrong":             {"panic: it went wrong\n", "--- FAIL: TestA (0.00s)\n"},
		"no reason given":                  nil,
	} {
		if got := firstFailure(output); got != strings.TrimSpace(name) {
			t.Errorf("%q, want %q", got, name)
		}
	}
}
