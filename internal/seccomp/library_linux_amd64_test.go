package seccomp

import (
	"math/rand/v2"
	"slices"
	"testing"

	lib "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// byLibrary has go-seccomp-bpf assemble the rules: those without conditions in one filter, each of the others in
// a filter of its own. More than one in a filter isn't safe: the library doesn't load the number again after it has
// looked at arguments.
func byLibrary(t *testing.T, rules []denial) (filters []Filter) {
	t.Helper()
	var plain []lib.SyscallGroup
	for _, r := range rules {
		if _, ok := amd64.number(r.name); !ok {
			continue
		}
		g := lib.SyscallGroup{Action: lib.ActionErrno | lib.Action(r.errno)}
		if r.when == nil {
			g.Names = []string{r.name}
			plain = append(plain, g)
			continue
		}
		for _, set := range r.when {
			g.NamesWithCondtions = append(g.NamesWithCondtions, lib.NameWithConditions{Name: r.name, Conditions: translate(set)})
		}
		filters = append(filters, libraryFilter(t, g))
	}
	return append(filters, libraryFilter(t, plain...))
}

func translate(set all) (out lib.ArgumentConditions) {
	add := func(c condition, op lib.Operation, v uint64) {
		out = append(out, lib.Condition{Argument: c.arg, Operation: op, Value: v})
	}
	for _, c := range set {
		switch c.op {
		case equal:
			add(c, lib.Equal, c.value)
		case notEqual:
			add(c, lib.NotEqual, c.value)
		case someBit:
			add(c, lib.BitsSet, c.value)
		case noneSet:
			add(c, lib.BitsNotSet, c.value)
		case lowEqual: // the library can only ask for each bit
			add(c, lib.BitsNotSet, uint64(^uint32(c.value)))
			for bit := uint64(1); bit < 1<<32; bit <<= 1 {
				if c.value&bit != 0 {
					add(c, lib.BitsSet, bit)
				}
			}
		}
	}
	return out
}

func libraryFilter(t *testing.T, groups ...lib.SyscallGroup) (f Filter) {
	t.Helper()
	p := lib.Policy{DefaultAction: lib.ActionAllow, Syscalls: groups}
	instructions, err := p.Assemble()
	must(t, err)
	raw, err := bpf.Assemble(instructions)
	must(t, err)
	for _, r := range raw {
		f.Program = append(f.Program, unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K})
	}
	return f
}

// TestConditionsMatchLibrary compares blocks of random conditions with the library's, and with all.holds.
func TestConditionsMatchLibrary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	seen := map[bool]int{}
	for range 3000 {
		r := denial{name: "ioctl", errno: unix.EPERM, when: randomSets(rnd)}
		var known table
		known.clear()
		known[unix.SYS_IOCTL] = r.leaf()
		prog, err := assemble(nativeArch, unix.SECCOMP_RET_KILL_PROCESS, spans(&known, beyondTable(nil)))
		must(t, err)
		if _, err := follow(prog); err != nil {
			t.Fatalf("%+v: %v", r.when, err)
		}
		filters, library := []Filter{{Program: prog}}, byLibrary(t, []denial{r, {name: "reboot", errno: unix.EPERM}})
		for range 40 {
			d := data{nr: unix.SYS_IOCTL, arch: nativeArch, args: nearArguments(rnd, r.when)}
			got, want := verdict(filters, &d), verdict(library, &d)
			if denied := r.matches(&d.args); got != want || denied != (got != unix.SECCOMP_RET_ALLOW) {
				t.Fatalf("%+v, args %#x: %#x, the library says %#x, holds %v", r.when, d.args, got, want, denied)
			}
			seen[got == unix.SECCOMP_RET_ALLOW]++
		}
	}
	if min(seen[true], seen[false]) < 5000 {
		t.Errorf("denied and allowed: %v: the test is nearly empty", seen)
	}
	for n, fits := range map[int]bool{128: true, 129: false} { // as far as a conditional jump goes
		if _, err := decideArguments(nil, []all{slices.Repeat(low32(0, 1), n)}, unix.EPERM); (err == nil) != fits {
			t.Errorf("%d conditions: %v", n, err)
		}
	}
}

func randomSets(rnd *rand.Rand) (sets []all) {
	for range 1 + rnd.IntN(4) {
		var set all
		for range 1 + rnd.IntN(4) {
			c := condition{arg: rnd.Uint32N(6), op: operation(1 + rnd.IntN(5)), value: arguments(rnd)[0]}
			if c.value == 0 {
				c.value = 1 << rnd.IntN(64)
			}
			if c.op == lowEqual {
				c.value &= 0xffff // the library needs a condition for each bit: not too many
			}
			set = append(set, c)
		}
		sets = append(sets, set)
	}
	return sets
}

// nearArguments are arguments that meet one of the sets, or nearly.
func nearArguments(rnd *rand.Rand, sets []all) [6]uint64 {
	args := arguments(rnd)
	set := slices.Clone(sets[rnd.IntN(len(sets))])
	for _, c := range set {
		switch rnd.IntN(6) {
		case 0:
			args[c.arg] = c.value
		case 1:
			args[c.arg] = c.value ^ 1<<rnd.IntN(64)
		case 2:
			args[c.arg] &^= c.value
		case 3:
			args[c.arg] |= c.value & (1 << rnd.IntN(64))
		}
	}
	return args
}
