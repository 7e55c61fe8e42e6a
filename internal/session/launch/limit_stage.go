package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// stageName is argument 0 of the limit stage: this program, which lowers its own limits and then executes the rest of its arguments. Package syscall
// can't set a child's limits, and toolguard itself needs more than the command.
const stageName = "toolguard: limits"

// errStage is the exit status of a stage that failed: nothing was started.
const errStage = 125

// RunLimitStage executes the program's arguments if this process is the limit stage; otherwise it returns.
func RunLimitStage() {
	if len(os.Args) == 0 || os.Args[0] != stageName {
		return
	}
	err := runLimitStage(os.Args[1:])
	fmt.Fprintf(os.Stderr, "toolguard: set the session's limits: %v; nothing was started\n", err)
	os.Exit(errStage)
}

func runLimitStage(args []string) error {
	i := slices.Index(args, "--")
	if i < 0 || i+1 == len(args) {
		return errors.New("there is no command")
	}
	for _, arg := range args[:i] {
		which, value, _ := strings.Cut(arg, "=")
		resource, err := strconv.Atoi(which)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return err
		}
		if err := lowerLimit(resource, n); err != nil {
			return err
		}
	}
	program := args[i+1:]
	return &os.PathError{Op: "execute", Path: program[0], Err: syscall.Exec(program[0], program, os.Environ())}
}

// lowerLimit lowers a limit of this process, hard and soft, to at most n, so that the command can't raise it.
func lowerLimit(resource int, n uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	n = min(n, now.Max)
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(n, now.Cur), Max: n}))
}

// Sandboxed is a command that a wrapper confines.
type Sandboxed struct {
	Args   []string // of the wrapper, with its absolute path first
	Env    []string
	Keep   []int          // the descriptors that the command gets: 0, 1, 2 and others
	Limits map[int]uint64 // by resource; empty: none
	Self   string         // the path of this program, for the limit stage
}

// Start starts the command as a child in the same process group.
func (s *Sandboxed) Start() (pid int, err error) {
	if err := CloseOnExec(s.Keep); err != nil {
		return 0, err
	}
	program, args := s.Args[0], s.Args
	if len(s.Limits) > 0 {
		program, args = s.Self, []string{stageName}
		for resource, n := range s.Limits {
			args = append(args, fmt.Sprintf("%d=%d", resource, n))
		}
		args = append(append(args, "--"), s.Args...)
	}
	return syscall.ForkExec(program, args, &syscall.ProcAttr{Env: s.Env, Files: standardFiles()})
}

// standardFiles returns 0, 1 and 2 where they are open.
func standardFiles() (files []uintptr) {
	for fd := range 3 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) != nil {
			files = append(files, ^uintptr(0))
			continue
		}
		files = append(files, uintptr(fd))
	}
	return files
}
