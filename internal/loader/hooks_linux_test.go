package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// Every program has its line in the table of hooks, and no line is without a program.
func TestHooks(t *testing.T) {
	spec, err := loadKernel()
	must(t, err)
	attached := map[string]bool{}
	for name, p := range spec.Programs {
		attached[p.AttachTo] = true
		if _, ok := hooks[p.AttachTo]; !ok {
			t.Errorf("%s attaches to %s, which isn't in the table of hooks", name, p.AttachTo)
		}
		if name != "toolguard_"+p.AttachTo {
			t.Errorf("%s attaches to %s: a program is called after its hook", name, p.AttachTo)
		}
	}
	for name, h := range hooks {
		if !attached[name] {
			t.Errorf("no program attaches to %s", name)
		}
		if p := spec.Programs["toolguard_"+name]; h.twice != (p != nil && p.Type == ebpf.Tracing && strings.HasPrefix(h.mediates, "nothing: it records")) {
			t.Errorf("%s is attached twice: %v", name, h.twice)
		}
		if h.mediates == "" {
			t.Errorf("%s has no text of what it mediates", name)
		}
	}
}

// Where the programs' memory begins is the one variable that toolguard writes.
func TestStartingIsFirst(t *testing.T) {
	spec, err := loadKernel()
	must(t, err)
	if at := spec.Variables[kernelVarStarting].Offset; at != 0 {
		t.Errorf("%s is at %d", kernelVarStarting, at)
	}
}

// Pins are found by the object's hash.
func TestVersion(t *testing.T) {
	sum := sha256.Sum256(_KernelBytes)
	if got := hex.EncodeToString(sum[:]); !strings.HasPrefix(got, version) || len(version) != 16 {
		t.Errorf("the object's hash is %s, and its version %s", got, version)
	}
}

// The kernel's preemption mode is found without a mounted debugfs.
func TestPreemption(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if mode := preemption(); !slices.Contains([]string{"none", "voluntary", "full", "lazy", "unknown"}, mode) {
		t.Errorf("%q", mode)
	}
	if detail, err := checkTaskStorage(); err != nil {
		t.Errorf("%s: %v", detail, err) // every kernel that the tests run on does
	}
}
