package dns

import (
	"bytes"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestCapitals(t *testing.T) {
	if got := randomCase("`az{-09", []byte{0xff}) + randomCase("az", []byte{0}); got != "`AZ{-09az" {
		t.Errorf("got %s", got)
	}
}

// FuzzAnswer: the result is limited for any answer, and comes only from an answer to the query.
func FuzzAnswer(f *testing.F) {
	q, msg, err := newQuery("a.com", dnsmessage.TypeA)
	childtest.Must(f, err)
	var m dnsmessage.Message
	childtest.Must(f, m.Unpack(msg))
	b := dnsmessage.MustNewName("b.com.")
	m.Response = true
	m.Answers = []dnsmessage.Resource{
		{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: &dnsmessage.CNAMEResource{CNAME: b}},
		{Header: dnsmessage.ResourceHeader{Name: b, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 1}}},
	}
	good, err := m.Pack()
	childtest.Must(f, err)
	if got, err := parseAnswer(good, &q, false); err != nil || len(got.Addrs) != 1 || len(got.Chain) != 1 {
		f.Fatalf("control: %+v, %v", got, err)
	}
	f.Add(good[2:])
	f.Add(msg[2:])
	f.Fuzz(func(t *testing.T, rest []byte) {
		in := append([]byte{byte(q.id >> 8), byte(q.id)}, rest...)
		for _, tcp := range []bool{false, true} {
			got, err := parseAnswer(in, &q, tcp)
			if err == nil && (len(got.Addrs) > MaxAddrs || len(got.Chain) > maxChain || got.TTL < 0) {
				t.Errorf("%+v", got)
			}
			for _, a := range got.Addrs {
				if !a.Is4() {
					t.Errorf("%s is no IPv4 address", a)
				}
			}
		}
		if _, err := parseAnswer(in[1:], &q, true); err == nil && !bytes.Equal(in[1:3], in[:2]) {
			t.Error("an answer with another ID is accepted")
		}
	})
}
