package backend

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/proc"
)

// instead returns how to get a backend that enforces more than landlock; "": there is none.
func instead(b *Backend, name, daemon string) string {
	root := os.Geteuid() == 0
	switch {
	case b.name == "bpf":
		return ""
	case name == b.name:
		return "leave out --backend " + name + ", so that the best backend is taken"
	case daemon == "none" && !root:
		return "leave out --daemon none, so that toolguardd decides, or run it as root"
	case b.Skipped != nil:
		return remedy(b.Skipped)
	case loader.Contained():
		return "have toolguardd decide, which isn't set up here (docs/daemon.md: in a container, mount all of /run/toolguard)"
	case lacksBPF():
		return "use the bpf backend, for which this kernel's lsm= list lacks bpf: 'toolguard doctor' shows how to get it"
	case root:
		return "get the bpf backend, which this machine doesn't have: 'toolguard doctor' shows what it needs"
	}
	return "have toolguardd decide, which isn't set up here (docs/daemon.md), or run it as root"
}

// remedy returns how to make a backend usable that is set up.
func remedy(err error) string {
	switch {
	case errors.Is(err, api.ErrNotPermitted):
		return fmt.Sprintf("have toolguardd decide, which requires membership in the group toolguard: sudo usermod -aG toolguard %s, and log in again", userName())
	case errors.Is(err, api.ErrNotRunning):
		return "have toolguardd decide, which isn't running: sudo systemctl start toolguardd"
	case os.Geteuid() == 0:
		return fmt.Sprintf("use the bpf backend ('toolguard doctor' shows more): %v", err)
	}
	return fmt.Sprintf("have toolguardd decide, which can't: %v ('sudo journalctl -u toolguardd' shows more)", err)
}

// userName returns the user's name for a shell command.
func userName() string {
	if name := os.Getenv("USER"); name != "" && !strings.ContainsAny(name, " '\"$`\\;&|<>()") {
		return name
	}
	return fmt.Sprintf("$(id -un %d)", os.Getuid())
}

// lacksBPF reports whether the kernel certainly has no BPF LSM. If the list of LSMs can't be read, it returns false.
func lacksBPF() bool {
	list := strings.TrimSpace(string(proc.ReadShort("/sys/kernel/security/lsm")))
	return list != "" && !slices.Contains(strings.Split(list, ","), "bpf")
}
