package ownaddr

import (
	"net/netip"
	"testing"
)

func TestIsNow(t *testing.T) {
	for text, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "203.0.113.1": false} {
		if IsNow(netip.MustParseAddr(text)) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
