//go:build !linux

package hook

import (
	"os"
	"syscall"
)

// started is a program that runs.
type started struct {
	pipes

	process *os.Process
}

func (p *program) start() (*started, error) {
	s := new(started)
	var err error
	if s.pipes, err = openPipes(); err != nil {
		return nil, err
	}
	s.process, err = os.StartProcess(p.path, p.argv, &os.ProcAttr{Dir: p.dir, Env: p.env, Files: s.child[:], Sys: &syscall.SysProcAttr{Setsid: true}})
	s.closeChild()
	if err != nil {
		s.close()
		return nil, startError(p.path, err)
	}
	return s, nil
}

// wait waits for the end of the program, and kills the rest of its group.
func (s *started) wait() status {
	state, err := s.process.Wait()
	if err != nil {
		return statusOf(0, err)
	}
	s.killGroup()
	ws, _ := state.Sys().(syscall.WaitStatus)
	return statusOf(ws, nil)
}

func (s *started) killGroup() { _ = syscall.Kill(-s.process.Pid, syscall.SIGKILL) }
