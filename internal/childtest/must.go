package childtest

// testingT is what tests, benchmarks and rapid's tests have in common.
type testingT interface {
	Helper()
	Fatal(args ...any)
}

// Must ends a test that can't go on because of an error.
func Must(t testingT, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
