package childtest

// testingT is the common part of tests, benchmarks and rapid's tests.
type testingT interface {
	Helper()
	Fatal(args ...any)
}

// Must ends a test on an error.
func Must(t testingT, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
