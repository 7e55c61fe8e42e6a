package policyfile

import "testing"

func TestParseSize(t *testing.T) {
	const units = "the units are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024)"
	const form, wrong = `write it as "512MiB" or "1.5GiB"`, "it's too large, or not a number"
	for in, want := range map[string]struct {
		n    uint64
		hint string
	}{
		"512": {512, form}, "1.5GiB": {3 << 29, form}, "10 MB/s": {10e6, form}, "0.001kB": {1, form}, "4194304TiB": {1 << 62, form},
		"0.0001kB": {0, wrong}, "4194304.001TiB": {0, wrong}, "16777216TiB": {0, wrong}, "99999999999999999TiB": {0, wrong}, "1.2.3GB": {0, wrong},
		"5abc": {0, units}, "5abcd": {0, form}, "abc": {0, form}, "KiB": {0, form},
	} {
		if n, hint := ParseSize(in); hint != want.hint || n != want.n {
			t.Errorf("%s: %d, %s", in, n, hint)
		}
	}
}
