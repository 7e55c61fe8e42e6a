package event

import (
	"fmt"
	"os"
	"strings"
)

// bootID returns the kernel's boot id, which distinguishes the sequences of different boots.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
