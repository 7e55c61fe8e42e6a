package loader

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

func init() { childCommands["execute on input"] = executeOnInput }

// A program whose arguments are to be looked at when the session has got another policy, also one whose image lies where the first
// one's did, is killed: the lists of the first policy no longer exist.
func TestExchangedDuringExec(t *testing.T) {
	k := kernel(t)
	self, err := os.Executable()
	must(t, err)
	layer := policy.SourceLayer{Authority: policy.Session, Commands: []policy.CommandRule{
		{Name: self}, {Name: "/usr/bin/true", HasArgs: true, Args: [][]string{{"yes"}}},
	}}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, tree{})
	must(t, err)
	image := func(generation uint32) *image.Image {
		img, err := image.New(c, generation)
		must(t, err)
		return img
	}
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	for reloads := range uint32(3) {
		s, err := k.Begin(newID(), image(1), FlagsOf(c))
		must(t, err)
		first := s.at.Image
		var h *collected
		var p *pausedExec
		confined(t, s, func() {
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
		for atomic.LoadUint32(&s.at.Tasks) != 0 { // the next one's images use this one's lines, too, or none fits
			time.Sleep(time.Millisecond)
		}
		killed := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL
		if reloads == 0 && (err != nil || len(h.events) != 0) || reloads > 0 && !killed {
			t.Errorf("%d reloads: %v, %+v", reloads, err, h.events)
		}
		if reloads > 0 && (len(h.events) != 1 || h.events[0].Why != WhyUnresolved || h.events[0].Walk != WalkExchanged) {
			t.Errorf("%d reloads: %+v", reloads, h.events)
		}
	}
}

// Whatever a program is called, by argument 0 and by the name that it's executed by, and whatever arguments it has, the kernel decides as
// the evaluator does, which knows one name alone.
func TestArgsAgree(t *testing.T) {
	const policies, calls = 6, 50
	k := kernel(t)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	files := programs(t)
	all, asked, few := 0, 0, policies*calls/20
	for ; asked < policies*calls || all < few && asked < 5*policies*calls; asked += calls { // few policies may allow nearly all
		c := commandsOf(t, r, files)
		img, err := image.New(c, 1)
		must(t, err)
		s, err := k.Begin(newID(), img, FlagsOf(c))
		must(t, err)
		var h *collected
		denied := 0
		confined(t, s, func() {
			h = listen(s)
			for range calls {
				file := files[r.IntN(len(files))]
				argv := append([]string{longName(r, filepath.Base(files[r.IntN(len(files))]))}, someWords(r)...)
				want := mayExecute(t, c, file, argv)
				if got, err := executes(file, argv); err != nil || got != want {
					t.Errorf("%s %.300q: %v, %v; want %v by\n%.2000s", file, argv, got, err, want, commandsText(c))
				}
				if !want {
					denied++
				}
			}
		})
		end(t, s)
		all += denied
		if len(h.events) != denied {
			t.Errorf("%d denials, %d events", denied, len(h.events))
		}
	}
	if all < few || all > asked-few {
		t.Errorf("%d of %d denied: too few to compare", all, asked)
	}
	t.Logf("%d of %d were denied", all, asked)
}

// programs is one program by several names, and scripts that it's the interpreter of.
func programs(t *testing.T) (files []string) {
	dir := scene(t)
	program, err := os.ReadFile("/usr/bin/true")
	if err == nil {
		err = os.WriteFile(dir+"/tool1.2", program, 0o755)
	}
	for _, name := range []string{"tool", "tool1", "other", "other-x"} {
		err = errors.Join(err, os.Symlink("tool1.2", dir+"/"+name), os.WriteFile(dir+"/of-"+name, []byte("#!"+dir+"/"+name+" a\n"), 0o755))
		files = append(files, dir+"/"+name, dir+"/of-"+name)
	}
	must(t, err)
	return append(files, dir+"/tool1.2")
}

// commandsOf is a policy of two authorities with rules about the program; the scripts are listed.
func commandsOf(t *testing.T, r *rand.Rand, files []string) *policy.Compiled {
	var layers []policy.SourceLayer
	for _, authority := range []policy.Authority{policy.Global, policy.Session}[r.IntN(2):] {
		l := policy.SourceLayer{Authority: authority}
		l.Defaults[policy.Commands] = policy.Deny
		named := map[string]bool{}
		var programs []string
		for _, file := range files {
			if strings.HasPrefix(filepath.Base(file), "of-") {
				l.Commands = append(l.Commands, policy.CommandRule{Name: file})
			} else {
				programs = append(programs, file)
			}
		}
		for range 1 + r.IntN(4) {
			rule := policy.CommandRule{Name: programs[r.IntN(len(programs))], HasArgs: r.IntN(8) > 0}
			if named[rule.Name] {
				continue
			}
			named[rule.Name] = true
			for range r.IntN(6) {
				if rule.HasArgs {
					rule.Args = append(rule.Args, append(someWords(r), []string{policy.ArgsRest}[r.IntN(2):]...))
				}
			}
			l.Commands = append(l.Commands, rule)
		}
		layers = append(layers, l)
	}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: layers}, tree{})
	must(t, err)
	return c
}

func commandsText(c *policy.Compiled) string {
	var b strings.Builder
	for _, l := range c.Layers {
		for _, rule := range l.Commands.Rules() {
			fmt.Fprintln(&b, l.Authority, explain.RuleText(rule))
		}
	}
	return b.String()
}

// someWords are few that are often the same.
func someWords(r *rand.Rand) []string {
	words := make([]string, r.IntN(3))
	for i := range words {
		words[i] = []string{"a", "b", "", strings.Repeat("a", 70), strings.Repeat("b", 300)}[min(r.IntN(8), 4)*r.IntN(2)]
	}
	return words
}

// longName is a name as it is, in some folder, or with something before it.
func longName(r *rand.Rand, name string) string {
	return []string{name, name, "/x/" + name, strings.Repeat("x", 253) + "/" + name, strings.Repeat("x/", 3000) + name, "x" + name, ""}[r.IntN(7)]
}

// mayExecute is the evaluator's decision about a file and, if that is a script, about its interpreter. Called by two names, a program must
// answer to both.
func mayExecute(t *testing.T, c *policy.Compiled, file string, argv []string) bool {
	if text, _ := os.ReadFile(file); strings.HasPrefix(string(text), "#!") {
		interpreter := strings.Fields(string(text[2:]))
		return c.CheckCommand(file, argv).Allow && mayExecute(t, c, interpreter[0], append(interpreter, append([]string{file}, argv[1:]...)...))
	}
	program, _ := os.Readlink(file)
	if program == "" {
		program = filepath.Base(file)
	}
	program = filepath.Dir(file) + "/" + program
	may := true
	for _, l := range c.Layers {
		rules := l.Commands.Of(program)
		i := slices.IndexFunc(rules, func(r *policy.Rule) bool { return r.Command.AcceptsName(argv[0]) && r.Command.AcceptsName(file) })
		may = may && (i >= 0 && rules[i].Command.Accepts(argv[1:]) || len(rules) == 0 && l.Defaults[policy.Commands] != policy.Deny)
	}
	if filepath.Base(argv[0]) == filepath.Base(file) && c.CheckCommand(program, argv).Allow != may {
		t.Errorf("%s %.300q: the evaluator decides %v, this test %v", program, argv, !may, may)
	}
	return may
}

// executes reports whether a file is executed with these arguments.
func executes(file string, argv []string) (bool, error) {
	pid, err := syscall.ForkExec(file, argv, &syscall.ProcAttr{Env: []string{}})
	if errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil {
		return false, err
	}
	if ws.Signal() == unix.SIGKILL {
		return false, nil
	}
	return ws.ExitStatus() == 0, nil
}

// pausedExec is a child whose execve can be paused half way: it has to wait until the process's other threads have ended, and one
// that is traced ends when the tracer lets it.
type pausedExec struct {
	cmd    *exec.Cmd
	thread int
	input  *os.File
}

func startPaused(t *testing.T) *pausedExec {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	p := &pausedExec{cmd: childtest.Command(t, 0, []string{"execute on input"}), input: w}
	p.cmd.Stdin = r
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() }) // otherwise a missing event would block for ever
	t.Cleanup(func() { late.Stop() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if p.thread, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Error(err)
	}
	return p
}

// execute has the child execute, and does something meanwhile.
func (p *pausedExec) execute(t *testing.T, meanwhile func()) {
	t.Helper()
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.thread), 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
	err := errors.Join(errno(e), p.input.Close())
	var ws unix.WaitStatus
	if err == nil {
		_, err = unix.Wait4(p.thread, &ws, unix.WALL, nil)
	}
	if err != nil || ws.TrapCause() != unix.PTRACE_EVENT_EXIT {
		t.Errorf("the thread that is traced doesn't end: %v, %v", err, ws)
	}
	meanwhile()
	must(t, unix.PtraceDetach(p.thread)) // or it would have to be waited for once more
}

// executeOnInput executes a program when standard input ends.
func executeOnInput([]string) (any, error) {
	go func() {
		runtime.LockOSThread()
		fmt.Println(unix.Gettid())
		_ = unix.Pause()
	}()
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil, unix.Exec("/usr/bin/true", []string{"true", "yes"}, nil)
}

// elfFile is a program of one segment and its interpreter.
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
		must(t, binary.Write(&b, binary.LittleEndian, part))
	}
	return b.Bytes()
}

// A program's interpreter is mapped by the kernel: it needs execute, though no segment is executable.
func TestInterpreterIsMapped(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: the programs are made for it")
	}
	k := kernel(t)
	dir := scene(t)
	for _, name := range []string{"secret", "open"} {
		err := errors.Join(os.WriteFile(dir+"/"+name, elfFile(t, elf.ET_DYN, elf.PF_R, ""), 0o755),
			os.WriteFile(dir+"/by-"+name, elfFile(t, elf.ET_EXEC, elf.PF_R|elf.PF_X, dir+"/"+name), 0o755))
		must(t, err)
	}
	s, c := begin(t, k, "/ read+execute+update", dir+"/secret none")
	var h *collected
	confined(t, s, func() {
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
