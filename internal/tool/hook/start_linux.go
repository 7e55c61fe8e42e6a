package hook

import (
	"syscall"

	"github.com/toolguard/toolguard/internal/proc"
)

// started is a program that runs.
type started struct {
	pipes

	process *proc.Child
}

func (p *program) start() (*started, error) {
	s := new(started)
	var err error
	if s.pipes, err = openPipes(); err != nil {
		return nil, err
	}
	s.process, err = proc.StartChild(p.path, p.argv, syscall.ProcAttr{Dir: p.dir, Env: p.env, Files: s.files()})
	s.closeChild()
	if err != nil {
		s.close()
		return nil, startError(p.path, err)
	}
	return s, nil
}

// wait waits for the end of the program, and kills the rest of its group.
func (s *started) wait() status { return statusOf(s.process.Wait()) }

func (s *started) killGroup() { s.process.KillGroup() }

// files are the descriptors of the program's ends.
func (p *pipes) files() []uintptr {
	return []uintptr{p.child[0].Fd(), p.child[1].Fd(), p.child[2].Fd()}
}
