package netname

import (
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name253 := strings.Repeat(label63+".", 3) + label63[:61]
	for in, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com.": "example.com", "münchen.de": "xn--mnchen-3ya.de", "MÜNCHEN.de": "xn--mnchen-3ya.de",
		"_dmarc.example.com": "_dmarc.example.com", "r3---sn-x.example.com": "r3---sn-x.example.com", "localhost": "localhost",
		"ａｐｉ.example.com": "api.example.com", "example。com": "example.com", "1password.com": "1password.com", "0xdeadbeef.example": "0xdeadbeef.example",
		"faß.de": "xn--fa-hia.de", "a.b.c.d.e": "a.b.c.d.e", "z9.com": "z9.com", label63 + ".com": label63 + ".com", name253: name253,
	} {
		if got, err := Normalize(in); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "a..b", ".a", "a..", "xn--", "xn--.com", "xn--a.com", "-a.com", "a-.com", "a b", "a/b", "a@b", "a:b", "a%00b", "a\x00b", "a\nb",
		"127.1", "0x7f.1", "2130706433", "0x7f000001", "1.2.3", "1.2.3.4.5", "01.02.03.04", "1.2.3.04", "127.0.0.1.", "①②⑦.①", "１.２.３.４", "a.0x1f",
		"例え／evil.com", "a．．b", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com", "a,b", "*.a.com", "a\u200db.com", "\xff.com",
	} {
		if got, err := Normalize(bad); err == nil {
			t.Errorf("%q is taken for %q", bad, got)
		}
	}
}

// An accepted name is in its one normal form, and no other part of the system could read it as an address.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"example.com", "münchen.de", "127.1", "xn--", "a..b", "ａ。ｂ", "_a.b", "0x7f.1", "a\u200db", "xn--mnchen-3ya.de."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Normalize(s)
		if err != nil {
			return
		}
		if again, err := Normalize(name); err != nil || again != name {
			t.Errorf("%q becomes %q becomes %q, %v", s, name, again, err)
		}
		if !isHostName(name) || endsInNumber(name) || strings.HasSuffix(name, ".") {
			t.Errorf("%q becomes %q", s, name)
		}
	})
}
