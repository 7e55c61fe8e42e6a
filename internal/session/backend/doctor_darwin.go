package backend

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/darwin/oslog"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
)

func probesOfThisMac() macProbes {
	return macProbes{
		version: func() (string, error) { return unix.Sysctl("kern.osproductversion") },
		canary: func() error {
			dir, err := filepath.EvalSymlinks(os.TempDir())
			if err != nil {
				return err
			}
			return sandboxexec.Canary(sandboxexec.Program, "/bin/cat", dir)
		},
		log: oslog.Program,
	}
}
