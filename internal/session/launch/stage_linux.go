package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// StageFlag is the only flag of the toolguard that a wrapper executes: see Wrapper. The descriptors of its instructions and of its connection to
// the outer toolguard follow.
const StageFlag = "--stage"

// stage has the decisions of the outer toolguard that the process within a wrapper executes. JSON replaces what isn't UTF-8, so text that may be
// anything is in bytes, and the paths of the plan are quoted.
type stage struct {
	Path         []byte
	Argv, Env    [][]byte
	Dir          []byte // the working folder
	Name         string // see Command
	Keep         []int
	Capabilities []string
	Mounts       []mounts.Mount // that the wrapper must have made
	Plan         *landlock.Plan
	Limits       map[int]unix.Rlimit
	Filters      []seccomp.Filter
}

// encode returns the stage of a command.
func (c *Command) encode() ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return json.Marshal(stage{
		[]byte(c.Path), bytesOf(c.Argv), bytesOf(c.Env), []byte(dir), c.Name, c.Keep, c.capabilities, c.Wrapper.Mounts, c.Plan.Quoted(strconv.QuoteToASCII), c.Limits, c.filters,
	})
}

func bytesOf(texts []string) [][]byte {
	list := make([][]byte, len(texts))
	for i, s := range texts {
		list[i] = []byte(s)
	}
	return list
}

func textsOf(list [][]byte) []string {
	texts := make([]string, len(list))
	for i, b := range list {
		texts[i] = string(b)
	}
	return texts
}

// RunStage restricts this process as its instructions say, and executes the command. It returns the process's exit status if that fails, for
// which the outer toolguard gets the reason.
func RunStage(args []string) int {
	runtime.LockOSThread()
	outer, err := strconv.Atoi(args[1])
	if err != nil {
		return stageFailed
	}
	result, err := greet(outer)
	if err != nil {
		fmt.Fprintf(os.Stderr, "toolguard: the process within the wrapper can't reach toolguard: %v\n", err)
		return stageFailed
	}
	err = runStage(args[0], result)
	b, _ := json.Marshal(stageErrorOf(err))
	_, _ = unix.Write(result, b)
	return stageFailed
}

const stageFailed = 253

// stageError is why the stage executed nothing.
type stageError struct {
	Purpose string        // of the failed step; "" if that's the execution of the command
	Errno   syscall.Errno // 0: none
	Text    string
}

func stageErrorOf(err error) (e stageError) {
	e.Text = err.Error()
	var step *forkexec.Error
	if errors.As(err, &step) {
		e.Purpose = step.Purpose
		e.Text = step.Err.Error()
	}
	_ = errors.As(err, &e.Errno)
	return e
}

func (e *stageError) error() error {
	var err error = e.Errno
	if e.Errno == 0 {
		err = errors.New(e.Text)
	}
	if e.Purpose != "" {
		return &forkexec.Error{Purpose: e.Purpose, Err: errors.New(e.Text)}
	}
	return err
}

// runStage returns only if the command isn't executed.
func runStage(instructions string, result int) error {
	s, err := readStage(instructions)
	if err != nil {
		return &forkexec.Error{Purpose: "read the instructions", Err: err}
	}
	err = runSteps([]step{
		{"check the wrapper's mounts", func() error { return mounts.Verify(s.Mounts) }},
		{"enter the working folder", func() error { return unix.Chdir(string(s.Dir)) }},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"drop the capabilities", func() error { return dropCapabilities(s.Capabilities) }},
		{"apply the landlock rules", func() error { return withName(s.Name, s.Plan.Apply) }},
		{"close the open descriptors", s.closeDescriptors},
		{"set the limits", s.setLimits},
		{"unblock the signals", unmaskSignals},
		{"load the system call filters", s.loadFilters},
	})
	if err != nil {
		return err
	}
	if _, err := unix.Write(result, executing); err != nil {
		return &forkexec.Error{Purpose: "report the execution", Err: err}
	}
	return syscall.Exec(string(s.Path), textsOf(s.Argv), textsOf(s.Env))
}

func readStage(instructions string) (s stage, err error) {
	fd, err := strconv.Atoi(instructions)
	if err != nil {
		return s, err
	}
	f := os.NewFile(uintptr(fd), "instructions")
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&s); err != nil {
		return s, err
	}
	return s, s.Plan.Unquote(strconv.Unquote)
}

// closeDescriptors closes all descriptors but those that the command keeps when it's executed.
func (s *stage) closeDescriptors() error {
	if err := unix.CloseRange(0, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range s.Keep {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	return nil
}

func (s *stage) setLimits() error {
	for which, limit := range s.Limits {
		if err := unix.Setrlimit(which, &limit); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) loadFilters() error {
	for _, f := range s.Filters {
		operation, flags, prog := f.Args()
		if err := loadFilter(operation, flags, prog); err != nil {
			return err
		}
	}
	return nil
}
