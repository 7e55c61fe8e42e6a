package loader

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

func init() { orders["execute when told"] = executeWhenTold }

// A program whose arguments are to be looked at when the session has got another policy, also one whose image lies where the first
// one's did, is killed: the lists that it was to be held against are no more.
func TestExchangedDuringExec(t *testing.T) {
	k := kernel(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	layer := policy.SourceLayer{Authority: policy.Session, Commands: []policy.CommandRule{
		{Name: self}, {Name: "/usr/bin/true", HasArgs: true, Args: [][]string{{"yes"}}},
	}}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, tree{})
	if err != nil {
		t.Fatal(err)
	}
	image := func(generation uint32) *Image {
		img, err := NewImage(c, generation)
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	for reloads := range uint32(3) {
		s, err := k.Begin(newID(), image(1), FlagsOf(c))
		if err != nil {
			t.Fatal(err)
		}
		first := s.at.Image
		var h *heard
		var p *paused
		guarded(t, s, func() {
			h = listen(s)
			p = startPaused(t)
		})
		if p == nil {
			t.FailNow()
		}
		p.execute(t, func() {
			for i := range reloads {
				if err := s.Reload(image(2 + i)); err != nil {
					t.Error(err)
				}
			}
		})
		if reloads == 2 && s.at.Image != first {
			t.Errorf("the third image is at %d, the first was at %d", s.at.Image, first)
		}
		err = p.cmd.Wait()
		end(t, s)
		killed := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL
		if reloads == 0 && (err != nil || len(h.events) != 0) || reloads > 0 && !killed {
			t.Errorf("%d reloads: %v, %+v", reloads, err, h.events)
		}
		if reloads > 0 && (len(h.events) != 1 || h.events[0].Why != WhyUnresolved || h.events[0].Walk != WalkExchanged) {
			t.Errorf("%d reloads: %+v", reloads, h.events)
		}
	}
}

// paused is a child whose execve can be held up half way: it has to wait until the process's other threads have ended, and one
// that is traced ends when it's told.
type paused struct {
	cmd    *exec.Cmd
	thread int
	tell   *os.File
}

func startPaused(t *testing.T) *paused {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &paused{cmd: childtest.Command(t, 0, []string{"execute when told"}), tell: w}
	p.cmd.Stdin = r
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() }) // nothing else ends a wait for what doesn't come
	t.Cleanup(func() { late.Stop() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if p.thread, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Error(err)
	}
	return p
}

// execute has the child execute, and does something meanwhile.
func (p *paused) execute(t *testing.T, meanwhile func()) {
	t.Helper()
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.thread), 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
	err := errors.Join(errno(e), p.tell.Close())
	var ws unix.WaitStatus
	if err == nil {
		_, err = unix.Wait4(p.thread, &ws, unix.WALL, nil)
	}
	if err != nil || ws.TrapCause() != unix.PTRACE_EVENT_EXIT {
		t.Errorf("the thread that is traced doesn't end: %v, %v", err, ws)
	}
	meanwhile()
	if err := unix.PtraceDetach(p.thread); err != nil { // or it would have to be waited for once more
		t.Error(err)
	}
}

// executeWhenTold executes a program when standard input ends.
func executeWhenTold([]string) (any, error) {
	go func() {
		runtime.LockOSThread()
		fmt.Println(unix.Gettid())
		_ = unix.Pause()
	}()
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil, unix.Exec("/usr/bin/true", []string{"true", "yes"}, nil)
}

// elfFile is a program of one segment, which has all of it, with what is to load it.
func elfFile(t *testing.T, kind elf.Type, flags elf.ProgFlag, interpreter string) []byte {
	t.Helper()
	const head, part = 64, 56
	size := uint64(head + 2*part + len(interpreter) + 1)
	h := elf.Header64{
		Type: uint16(kind), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: 0x400000, Phoff: head, Ehsize: head, Phentsize: part, Phnum: 2,
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	load := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(flags), Vaddr: 0x400000, Filesz: size, Memsz: size, Align: 4096}
	other := elf.Prog64{Type: uint32(elf.PT_NOTE)}
	if interpreter != "" {
		other = elf.Prog64{Type: uint32(elf.PT_INTERP), Off: size - uint64(len(interpreter)) - 1, Filesz: uint64(len(interpreter)) + 1}
	}
	var b bytes.Buffer
	for _, part := range []any{h, other, load, append([]byte(interpreter), 0)} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// What loads a program is mapped by the kernel, and read by who starts the program: it needs execute, though none of it is executable.
func TestInterpreterIsMapped(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: the programs are made for it")
	}
	k := kernel(t)
	dir := scene(t)
	for _, name := range []string{"secret", "open"} {
		err := errors.Join(os.WriteFile(dir+"/"+name, elfFile(t, elf.ET_DYN, elf.PF_R, ""), 0o755),
			os.WriteFile(dir+"/by-"+name, elfFile(t, elf.ET_EXEC, elf.PF_R|elf.PF_X, dir+"/"+name), 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}
	s, c := begin(t, k, "/ read+execute+update", dir+"/secret none")
	var h *heard
	guarded(t, s, func() {
		h = listen(s)
		for _, name := range []string{"secret", "open"} {
			cmd := exec.Command(dir + "/by-" + name)
			if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.Success() {
				t.Errorf("%s: %v, though there's nothing to execute in it", name, err)
			}
		}
	})
	end(t, s)
	if got := h.lines(c); len(got) != 1 || got[0] != "1 map rule "+dir+"/secret needs execute has none: fs.2" {
		t.Errorf("%q", got)
	}
}
