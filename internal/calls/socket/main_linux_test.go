package socket

import (
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestMain has children that make a socket in a folder, and wait.
func TestMain(m *testing.M) {
	childtest.Main(m, func(o order) (string, error) {
		l, err := Listen([]string{o.Folder}, o.Session)
		if err != nil {
			return "", err
		}
		println(l.Path) // the answer comes too late
		for err == nil {
			_, err = l.Accept()
		}
		return "", err
	})
}

// order is the socket that a child makes.
type order struct{ Folder, Session string }
