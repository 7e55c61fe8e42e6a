package cgroupsock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// child is a child that writes lines before its answer.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *os.File
	output *bufio.Scanner // through its descriptor 3
	answer bytes.Buffer
}

func startChild(t testing.TB, g *testSession, order ...string) *child {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	stdin, in, err := os.Pipe()
	must(t, err)
	defer stdin.Close()
	c := &child{t: t, cmd: childtest.Command(t, 0, order), in: in, output: bufio.NewScanner(r)}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.ExtraFiles = stdin, &c.answer, []*os.File{w}
	if g != nil {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.group.Fd())}
	}
	must(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = r.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // if it isn't reaped yet
	})
	return c
}

// line is the child's next line.
func (c *child) line() string {
	c.t.Helper()
	if !c.output.Scan() {
		c.t.Fatalf("the child writes nothing: %v", c.output.Err())
	}
	return c.output.Text()
}

// again lets the child go on.
func (c *child) again() string {
	c.t.Helper()
	if _, err := c.in.Write([]byte("\n")); err != nil {
		c.t.Fatal(err)
	}
	return c.line()
}

// end is what the child answers in the end.
func (c *child) end() (answer string) {
	c.t.Helper()
	must(c.t, c.cmd.Wait())
	must(c.t, json.Unmarshal(c.answer.Bytes(), &answer))
	return answer
}

// denied waits until a connection to the child was denied, and ends the child.
func (c *child) waitDenied(g *testSession, at netip.AddrPort) {
	c.t.Helper()
	g.reported(fmt.Sprintf("accept policy %s: no rule", at))
	_ = c.in.Close()
}
