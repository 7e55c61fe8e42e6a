package event

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID changes with every boot, so that a sequence can't be taken for another one's.
func bootID() (string, error) {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return s, nil
}
