package image

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// command is one layer's rule about executing the program at a node.
type command struct {
	layer, rule uint32
	args        [][]string // nil: any
	called      []string
}

// commands adds a layer's rules about programs. They aren't rules about files: they don't set NODE_BENEATH above them.
func (b *builder) commands(layer uint32, t *policy.CommandTable) error {
	for _, r := range t.Rules() {
		program := r.Command.Program
		if of := t.Of(program); len(of) == 0 || of[0] != r { // all rules of a program are added with its first one
			continue
		}
		n := b.path(program)
		for _, r := range t.Of(program) {
			c := command{layer: layer, rule: uint32(r.Index)}
			if !r.Command.AnyArgs() {
				c.args, c.called = append([][]string{}, r.Command.Args...), r.Command.Called()
				if err := followable(c.args); err != nil {
					return fmt.Errorf("%s: %w", r.ID, err)
				}
			}
			if len(b.nodes[n].commands) >= maxCommands {
				return fmt.Errorf("%s: %s has more than %d rules; the kernel's matcher follows no more", r.ID, program, maxCommands)
			}
			b.nodes[n].commands = append(b.nodes[n].commands, c)
		}
	}
	return nil
}

// followable returns an error if the programs can't compare arguments with these.
func followable(args [][]string) error {
	if len(args) >= maxAlternatives {
		return fmt.Errorf("args has %d alternatives; the kernel's matcher follows at most %d", len(args), maxAlternatives-1)
	}
	for _, a := range args {
		if text, _, _ := argsText(a); len(text) > maxArgs {
			return fmt.Errorf("an alternative of args is %d bytes long; the kernel's matcher follows at most %d", len(text), maxArgs)
		}
	}
	return nil
}

// argsText returns arguments in the form of a process's memory, their number, and whether more may follow.
func argsText(args []string) (text string, n uint32, rest bool) {
	if k := len(args) - 1; k >= 0 && args[k] == policy.ArgsRest {
		args, rest = args[:k], true
	}
	var b strings.Builder
	for _, a := range args {
		b.WriteString(a)
		b.WriteByte(0)
	}
	return b.String(), uint32(len(args)), rest
}

// commands lays out a program's record (bpf/lib/image.h).
func (w *writer) commands(commands []command) uint32 {
	if len(commands) == 0 {
		return 0
	}
	record := make([]uint32, LineSize/4)
	record[0] = uint32(len(commands))
	for _, c := range commands {
		record = append(record, c.layer, c.rule, w.args(c), 0)
	}
	return w.words(record)
}

func (w *writer) args(c command) uint32 {
	if c.args == nil {
		return 0
	}
	names := []uint32{0}
	for _, name := range c.called {
		if len(name) <= maxName { // no file has a longer name
			names[0]++
			names = append(names, uint32(len(name)+1), w.text(name+"\x00"))
		}
	}
	list := []uint32{uint32(len(c.args)), w.words(names)}
	for _, a := range c.args {
		text, n, rest := argsText(a)
		alternative := []uint32{n, 0, uint32(len(text)), w.text(text)}
		if rest {
			alternative[1] = 1
		}
		list = append(list, w.words(alternative))
	}
	return w.words(list)
}
