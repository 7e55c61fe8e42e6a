// Command testsum sums up a test run from the JSON lines of go test (test2json):
//
//	testsum -must LIST -seconds FILE [-have NAME=FEATURE,...]... NAME=FILE...
//
// It prints the seconds of each phase and package, slowest first, the skipped tests by reason, and one closing count. It fails if a
// test failed or was cut off, if none ran, or if a test of LIST, which the machine's features require, was skipped or did not run.
//
//	testsum -skipped REASON NAME=FILE
//
// prints the tests that were skipped for a reason, as "PACKAGE PATTERN" lines for -test.run.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	must := flag.String("must", "", "`FILE` with the tests that may not be skipped")
	seconds := flag.String("seconds", "", "`FILE` with the phases: NAME SECONDS")
	skipped := flag.String("skipped", "", "print only the tests that were skipped for this `REASON`")
	have := make(map[string][]string)
	flag.Func("have", "features of a place: `NAME=FEATURE,...`", func(s string) error {
		name, features, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=FEATURES", s)
		}
		have[name] = strings.FieldsFunc(features, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		return nil
	})
	flag.Parse()
	if err := run(*must, *seconds, *skipped, have, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "testsum: %v\n", err)
		os.Exit(1)
	}
}

func run(must, seconds, skipped string, have map[string][]string, args []string) error {
	var places []*place
	for _, arg := range args {
		name, file, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=FILE", arg)
		}
		i := slices.IndexFunc(places, func(p *place) bool { return p.name == name })
		if i < 0 {
			i, places = len(places), append(places, newPlace(name))
		}
		if err := places[i].read(file); err != nil {
			return err
		}
	}
	if skipped != "" {
		for _, p := range places {
			p.printSkipped(os.Stdout, skipped)
		}
		return nil
	}
	var missing []string
	if must != "" {
		required, err := readRequired(must)
		if err != nil {
			return err
		}
		for _, p := range places {
			missing = append(missing, required.missing(p, have[p.name])...)
		}
	}
	return summarize(os.Stdout, places, missing, seconds)
}
