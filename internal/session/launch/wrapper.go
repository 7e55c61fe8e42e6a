package launch

import (
	"os"

	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/policy"
)

// Wrapper is a program, such as bubblewrap, that makes namespaces for the command. It must start without no_new_privs, Landlock and filters, so
// it gets none of them, and no variable of the command's environment, which its loader would obey. Within it a second process of toolguard, the
// stage, restricts itself and executes the command.
type Wrapper struct {
	Path       string
	Args       func(inner []string, keep []int) ([]string, error) // its arguments, around the command line of the stage, which needs those descriptors
	Env        []string                                           // its own environment
	Files      []*os.File                                         // that its arguments name by their descriptors
	Mounts     []mounts.Mount                                     // that it makes, and the stage checks
	Supervisor *Supervisor                                        // which signals the command; may be nil
	Covers     func(path string) policy.Caps                      // what only the mounts deny on a path
}
