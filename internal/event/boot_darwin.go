package event

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID returns the kernel's boot id, which distinguishes the sequences of different boots.
func bootID() (string, error) {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return s, nil
}
