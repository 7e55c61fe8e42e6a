package netname

import "testing"

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.github.com/repos?x=@y#z": "https://api.github.com:443/repos",
		"HTTP://Example.com":                  "http://example.com:80",
		"https://example.com?x":               "https://example.com:443",
		"tcp://db.internal:5432":              "tcp://db.internal:5432",
		"udp://1.1.1.1:53":                    "udp://1.1.1.1:53",
		"https://[::1]:8443/":                 "https://[::1]:8443",
		"https://[::ffff:1.2.3.4]/":           "https://1.2.3.4:443",
		"ssh://example.com":                   "ssh://example.com:22",
		"git://example.com/a%20b/c":           "git://example.com:9418/a b/c",
		"wss://example.com:1/":                "wss://example.com:1",
		"tcp://0.0.0.0:80":                    "tcp://127.0.0.1:80",
		"http://[::]/":                        "http://[::1]:80",
		"http://[::ffff:0.0.0.0]/":            "http://127.0.0.1:80",
	} {
		if got, err := ParseTarget(in); err != nil || got.String() != want {
			t.Errorf("%q: %s, %v, want %s", in, &got, err, want)
		}
	}
	for _, bad := range []string{
		"https://user@api.github.com/", "https://api.github.com@evil.com/", "https://user:pw@h/", "https://api.github.com\x00.evil.com/", "https://a\n.com", "https://a b/",
		"https://a\\@b/", "https://127.1/", "https://0x7f000001/", "https://2130706433/", "https://0177.0.0.1/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/",
		"https://[::1", "https://[1.2.3.4]/", "https://[::1]x/", "https://[::1]:/", "https://::1/", "https://h:0/", "https://h:65536/", "https://h:80:80/", "https://h:/", "https://h:+80/", "https://h:080/",
		"https://", "https:///x", "https://*.a.com/", "//example.com", "example.com", "ftp://example.com/", "tcp://example.com", "tcp://example.com:80/x", "tcp://:80", "javascript://x:1",
		"https://a%2ecom/", "https://h/%zz", "", "https://-/", "https://a..b/", "https://ex\u00a0ample.com/", "https://h/\u0000",
	} {
		if got, err := ParseTarget(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, &got)
		}
	}
}
