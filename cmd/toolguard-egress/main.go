// Command toolguard-egress is egress as an HTTP proxy on loopback: toolguard starts it for a session that reaches hosts by name, on systems where no
// kernel redirects connections (macOS). On Linux, egress is a part of toolguardd.
package main

import (
	"fmt"
	"os"

	"github.com/toolguard/toolguard/internal/egress/process"
)

func main() {
	if err := process.ServeProxy(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "toolguard-egress:", err)
		os.Exit(1)
	}
}
