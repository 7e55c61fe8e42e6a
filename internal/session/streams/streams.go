// Package streams replaces the standard streams of this process, and so those of the command that it starts next, and checks inherited ones.
package streams

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// NoInput makes standard input empty: what a command's input was read from isn't the command's.
func NoInput() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	defer null.Close()
	if err := unix.Dup2(int(null.Fd()), 0); err != nil {
		return fmt.Errorf("standard input: %w", os.NewSyscallError("dup2", err))
	}
	return nil
}

// Inherited returns the number of an open descriptor that this process inherited. n is the number as text.
func Inherited(n string) (int, error) {
	fd, err := strconv.Atoi(n)
	if err != nil || fd < 0 {
		return -1, errors.New("write fd: and a number, such as fd:3")
	}
	// An inherited descriptor has survived an execve; toolguard's own are closed by one, and are rejected.
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return -1, errors.New("this descriptor isn't open")
	}
	return fd, nil
}

// Capture collects what is written to standard output and standard error.
type Capture struct {
	streams [2]*stream
	reading sync.WaitGroup
}

// stream is one captured stream.
type stream struct {
	fd       int
	original *os.File
	from     *os.File
	limit    int
	text     []byte
	cut      bool
}

// Begin captures both streams, of each at most limit bytes. What is written beyond is read and dropped, so that the command never waits.
func Begin(limit int) (c *Capture, err error) {
	c = &Capture{}
	for i := range c.streams {
		s, err := begin(i+1, limit)
		if err != nil {
			return nil, errors.Join(err, c.restore())
		}
		c.streams[i] = s
	}
	for _, s := range c.streams {
		c.reading.Go(s.read)
	}
	return c, nil
}

func begin(fd, limit int) (*stream, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer to.Close()
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Dup2(int(to.Fd()), fd)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("descriptor %d: %w", fd, err), from.Close())
	}
	return &stream{fd: fd, original: os.NewFile(uintptr(own), "original"), from: from, limit: limit}, nil
}

func (s *stream) read() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := s.from.Read(buffer)
		keep := min(n, s.limit-len(s.text))
		s.text = append(s.text, buffer[:keep]...)
		s.cut = s.cut || keep < n
		if err != nil {
			s.cut = s.cut || !errors.Is(err, io.EOF)
			return
		}
	}
}

// Out and Err return the original streams.
func (c *Capture) Out() *os.File { return c.streams[0].original }

// Err returns the original standard error.
func (c *Capture) Err() *os.File { return c.streams[1].original }

// restore makes the streams the original ones.
func (c *Capture) restore() (err error) {
	for _, s := range c.streams {
		if s != nil {
			if failed := unix.Dup2(int(s.original.Fd()), s.fd); failed != nil {
				err = errors.Join(err, os.NewSyscallError("dup2", failed))
			}
		}
	}
	return err
}

// grace is how long the end of a stream is waited for that a process has kept open which the session's end didn't end.
const grace = 2 * time.Second

// End restores the streams, and returns what was written. truncated reports that some of it isn't there.
func (c *Capture) End() (stdout, stderr []byte, truncated bool, err error) {
	err = c.restore()
	for _, s := range c.streams {
		err = errors.Join(err, s.from.SetReadDeadline(time.Now().Add(grace)))
	}
	c.reading.Wait()
	for _, s := range c.streams {
		truncated = truncated || s.cut
		err = errors.Join(err, s.from.Close())
		if s.cut {
			s.text = whole(s.text)
		}
	}
	return c.streams[0].text, c.streams[1].text, truncated, err
}

// whole is a text without the beginning of a character at its end.
func whole(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}
