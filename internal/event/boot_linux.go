package event

import (
	"fmt"
	"os"
	"strings"
)

// bootID changes with every boot, so that a sequence can't be taken for another one's.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
