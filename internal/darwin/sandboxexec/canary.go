package sandboxexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/darwin"
)

// ErrOuter is the error of a process that is in a sandbox already.
var ErrOuter = errors.New("an outer sandbox is present, which macOS doesn't nest (sandbox_apply: Operation not permitted): " +
	"start toolguard outside of it, and leave the agent's own sandbox off where toolguard confines it")

// Exit statuses of sandbox-exec's own.
const (
	exitProfile = 65 // EX_DATAERR
	exitSystem  = 71 // EX_OSERR
)

// canaryProfile denies reading one file.
const canaryProfile = `(version 1)
(allow default)
(deny file-read-data (literal (param "DENIED")))
`

// trialTime bounds the canary and the trial.
const trialTime = 20 * time.Second

// result is what a program under sandbox-exec did.
type result struct {
	status         int
	stdout, stderr string
}

// Canary proves that this machine's sandbox denies: of two files it reads the one that the profile allows, and not the other one. dir is a
// folder for the files, by its canonical path, and cat the program that reads.
func Canary(program, cat, dir string) error {
	dir, err := os.MkdirTemp(dir, "canary-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	allowed, denied := filepath.Join(dir, "allowed"), filepath.Join(dir, "denied")
	content := map[string]string{allowed: "allowed " + rand.Text(), denied: "denied " + rand.Text()}
	for file, text := range content {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	p := &darwin.Profile{Text: canaryProfile, Params: []darwin.Param{{Name: "DENIED", Value: denied}}}
	r, err := runUnder(program, p, "", cat, allowed, denied)
	if err != nil {
		return fmt.Errorf("the sandbox's canary can't run: %w", err)
	}
	return judgeCanary(r, content[allowed], content[denied])
}

// judgeCanary returns why a canary doesn't prove that the sandbox denies.
func judgeCanary(r result, allowed, denied string) error {
	switch err := ownError(r); {
	case err != nil:
		return err
	case strings.Contains(r.stdout, denied):
		return errors.New("the sandbox doesn't deny on this machine: a file was read that its profile denies")
	case r.stdout != allowed:
		return fmt.Errorf("the sandbox's canary failed: the file that its profile allows was not read (exit status %d): %s", r.status, firstLine(r.stderr))
	case r.status == 0:
		return errors.New("the sandbox's canary failed: no error was reported for the file that its profile denies")
	}
	return nil
}

// Try has sandbox-exec compile and apply a profile, with a program that needs nothing. That the profile denies executing it is no error.
func Try(program string, p *darwin.Profile, file, trueProgram string) error {
	r, err := runUnder(program, p, file, trueProgram)
	if err != nil {
		return fmt.Errorf("the profile can't be tried: %w", err)
	}
	return ownError(r)
}

// ownError returns sandbox-exec's own error; nil if it has executed a command, or tried to.
func ownError(r result) error {
	switch text := firstLine(r.stderr); {
	case r.status == exitSystem && strings.Contains(r.stderr, "sandbox_apply:") && strings.Contains(r.stderr, "Operation not permitted"):
		return ErrOuter
	case r.status == exitSystem && strings.Contains(r.stderr, "execvp()"):
		return nil
	case r.status == exitSystem && strings.HasPrefix(text, "sandbox-exec:"):
		return fmt.Errorf("macOS doesn't apply the profile: %s", text)
	case r.status == exitProfile:
		return fmt.Errorf("macOS doesn't accept the profile, which is a defect of toolguard ('toolguard policy render --backend seatbelt' prints it): %s", text)
	}
	return nil
}

// firstLine returns the first line of a program's messages, for an error.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// runUnder runs a program under a profile, without input and variables.
func runUnder(program string, p *darwin.Profile, file string, command ...string) (result, error) {
	args, err := Args(program, p, file, command...)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = args, []string{"PATH=/usr/bin:/bin"}, "/", &stdout, &stderr
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return result{}, fmt.Errorf("%s didn't end within %s", program, trialTime)
	case err != nil && !errors.As(err, &exit):
		return result{}, err
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, nil
}
