package fspath

import "testing"

func TestParseMounts(t *testing.T) {
	const table = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n" +
		`28 27 0:25 /a\040b /c\011\134\0121 ro shared:1 master:2 - tmpfs x\040y ro` + "\n" + `29 27 0:25 /a\04 /d\9zz rw` + "\n"
	got, err := ParseMounts(table)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if want := (Mount{27, 1, 254 << 20, "/", "/"}); got[0] != want {
		t.Errorf("%+v", got[0])
	}
	if want := (Mount{28, 27, 25, "/a b", "/c\t\\\n1"}); got[1] != want {
		t.Errorf("%+v", got[1])
	}
	if want := (Mount{29, 27, 25, `/a\04`, `/d\9zz`}); got[2] != want {
		t.Errorf("%+v", got[2])
	}
	for _, bad := range []string{"27 1 254:0 /\n", "x 1 254:0 / / rw\n", "27 x 254:0 / / rw\n", "27 1 254 / / rw\n", "27 1 4096:0 / / rw\n", "27 1 0:-1 / / rw\n", "\n"} {
		if got, err := ParseMounts(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// In any table of mounts, the alias of an alias is the path itself.
func FuzzMounts(f *testing.F) {
	f.Add("27 1 254:0 / / rw\n28 27 254:0 /a /b rw\n29 27 254:0 /a/c /d rw\n")
	f.Add("27 1 254:0 / / rw\n28 27 254:0 /a /a rw\n29 29 254:0 //deleted / rw\n")
	f.Fuzz(func(t *testing.T, table string) {
		all, err := ParseMounts(table)
		if err != nil {
			return
		}
		aliases := map[[2]string]bool{}
		for _, a := range VisibleMounts(all).Aliases() {
			aliases[[2]string{a.From, a.To}] = true
		}
		for a := range aliases {
			if !aliases[[2]string{a[1], a[0]}] || a[0] == a[1] {
				t.Errorf("%+v", a)
			}
		}
	})
}
