package cgroup

import "testing"

func TestParseKeyed(t *testing.T) {
	got, err := parseKeyed([]byte("populated 1\nfrozen 0\n"))
	if err != nil || got["populated"] != 1 || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseKeyed([]byte("populated\n")); err == nil {
		t.Error("a line without a number was accepted")
	}
}
