package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// grace is how long processes and their output may take to end after they were killed. On a busy machine that takes more than a second.
const grace = 2 * time.Second

// runProgram runs the program of a hook with a body on its input, and returns its output. Any status but 0 is an error.
func runProgram(ctx context.Context, h *toolset.Hook, env []string, body []byte) ([]byte, error) {
	file, err := find(h.Command[0], h.Dir, env)
	if err != nil {
		return nil, err
	}
	p := &program{path: file, argv: h.Command, dir: h.Dir, env: env, most: maxAnswer}
	return p.run(ctx, body)
}

// find returns the path of a program: relative to dir if it has a slash, else in the absolute folders of PATH.
func find(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	search := "/usr/bin:/bin" // as execvp(3)
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
			break
		}
	}
	for _, file := range fspath.Candidates(search, name) {
		info, err := os.Stat(file)
		if filepath.IsAbs(file) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("the program %s isn't in PATH: install it, or write its path into the policy", clip(name, maxStderr))
}

// program is a program that gets a text and answers one.
type program struct {
	path string
	argv []string
	dir  string
	env  []string
	most int // bytes of its output
}

// run runs the program. If the context ends, its process group is killed, and the error is any. It returns soon after the context has ended,
// whatever the processes do.
func (p *program) run(ctx context.Context, input []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := p.start()
	if err != nil {
		return nil, err
	}
	defer c.close()
	go func() {
		_, _ = c.stdin.Write(input) // a program needn't read all of it
		_ = c.stdin.Close()
	}()
	out, messages := make(chan stream, 1), make(chan stream, 1)
	go func() {
		s := read(c.stdout, p.most)
		if s.more {
			cancel(errTooLarge)
		}
		out <- s
	}()
	go func() {
		s := read(c.stderr, maxStderr)
		if s.more {
			_, _ = io.Copy(io.Discard, c.stderr)
		}
		messages <- s
	}()
	ended := make(chan status, 1)
	go func() { ended <- c.wait() }()
	select {
	case st := <-ended:
		limit := time.Now().Add(grace)
		_, _ = c.stdout.SetReadDeadline(limit), c.stderr.SetReadDeadline(limit)
		return p.output(st, <-out, <-messages)
	case <-ctx.Done():
		c.killGroup()
		return nil, context.Cause(ctx)
	}
}

// output is the output of a program that has ended, or why it doesn't count.
func (p *program) output(st status, text, said stream) ([]byte, error) {
	switch {
	case text.more:
		return nil, errTooLarge
	case st.err != nil:
		return nil, st.err
	case st.why != "":
		return nil, errors.New(st.why + after(", with the message: ", clip(strings.TrimSpace(string(said.text)), maxStderr)))
	case text.err != nil:
		return nil, fmt.Errorf("it has ended, but a process that it started keeps its output open: redirect that one's output (%w)", text.err)
	}
	return text.text, nil
}

// stream is what a program has written.
type stream struct {
	text []byte
	more bool // than the most bytes
	err  error
}

// read reads a stream to its end, or the most bytes.
func read(from *os.File, most int) (s stream) {
	s.text, s.err = io.ReadAll(io.LimitReader(from, int64(most)+1))
	if s.more = len(s.text) > most; s.more {
		s.text = s.text[:most]
	}
	return s
}

// status is how a program ended.
type status struct {
	why string // "" for exit status 0
	err error
}

func statusOf(ws syscall.WaitStatus, err error) status {
	switch {
	case err != nil:
		return status{err: fmt.Errorf("its exit status isn't known: %w", err)}
	case ws.Signaled():
		return status{why: "it was ended by the signal " + ws.Signal().String()}
	case ws.ExitStatus() != 0:
		return status{why: fmt.Sprintf("it ended with exit status %d", ws.ExitStatus())}
	}
	return status{}
}

// pipes are the parent's ends, and the program's.
type pipes struct {
	stdin, stdout, stderr *os.File
	child                 [3]*os.File
}

func openPipes() (p pipes, err error) {
	var errs [3]error
	p.child[0], p.stdin, errs[0] = os.Pipe()
	p.stdout, p.child[1], errs[1] = os.Pipe()
	p.stderr, p.child[2], errs[2] = os.Pipe()
	if err := cmp.Or(errs[0], errs[1], errs[2]); err != nil {
		p.close()
		p.closeChild()
		return p, fmt.Errorf("open a pipe to it: %w", err)
	}
	return p, nil
}

func (p *pipes) closeChild() {
	for _, f := range p.child {
		_ = f.Close() // of nil, it's an error
	}
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = f.Close()
	}
}

// startError explains why a program can't be started.
func startError(path string, err error) error {
	shown := clip(path, maxStderr)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the program %s, or its interpreter, doesn't exist: install it, or correct the policy", shown)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the program %s can't be executed: chmod +x %[1]s", shown)
	}
	return fmt.Errorf("the program %s can't be started: %w", shown, err)
}
