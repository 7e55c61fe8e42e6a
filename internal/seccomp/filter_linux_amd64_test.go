package seccomp

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

func namespacesTrue(l policy.SourceLayer) policy.SourceLayer {
	l.Namespaces = true
	return l
}

// withAuthority changes the authority of a layer.
func withAuthority(a policy.Authority, l policy.SourceLayer) policy.SourceLayer {
	l.Authority = a
	return l
}

var (
	udp    = policy.NetRule{Host: "example.com", Port: 53, Protocol: "udp", Allow: true}
	server = policy.NetRule{Host: "127.0.0.1", Port: 8080, Listen: true, Allow: true}
	deny   = policy.NetRule{Host: "example.com", Port: 443}
)

type modelCase struct {
	name string
	c    *policy.Compiled
	expectation
}

func modelCases(t *testing.T) []modelCase {
	all := policy.AllCaps
	executing := func(places ...string) *policy.Compiled {
		var l policy.SourceLayer
		for _, p := range places {
			r := policy.FSRule{Path: p, Caps: all}
			if strings.Contains(p, "*") {
				r = policy.FSRule{Match: p, Caps: all}
			}
			l.FS = append(l.FS, r)
		}
		return compile(t, l)
	}
	fsNet := denies(policy.FS, policy.Net)
	host := withAuthority(policy.Host, syscalls(policy.SourceLayer{}, policy.Syscalls{Profile: "default", Deny: []string{"kcmp"}}))
	session := withAuthority(policy.Session, syscalls(policy.SourceLayer{}, policy.Syscalls{Allow: []string{"io_uring_setup", "kcmp"}}))
	return []modelCase{
		{"nothing declared", compile(t, policy.SourceLayer{}), expectation{abi: 7, net: "open"}},
		{"nothing declared, old kernel", compile(t, policy.SourceLayer{}), expectation{abi: 1, net: "open"}},
		{"files and no net", compile(t, fsNet), expectation{abi: 7, fs: true, exec: true, net: "nothing"}},
		{"files and no net, abi 9", compile(t, fsNet), expectation{abi: 9, fs: true, exec: true, net: "nothing"}},
		{"files and no net, all seen", compile(t, fsNet), expectation{abi: FullMediation, fs: true, exec: true, net: "nothing"}},
		{"files and no net, abi 2", compile(t, fsNet), expectation{abi: 2, fs: true, exec: true, net: "nothing"}},
		{"no net, abi 5", compile(t, denies(policy.Net)), expectation{abi: 5, net: "nothing"}},
		{"no net, abi 6", compile(t, denies(policy.Net)), expectation{abi: 6, net: "nothing"}},
		{"everything may be executed", executing("/"), expectation{abi: 7, fs: true, net: "open"}},
		{"everything and a folder may be executed", executing("/", "/ws"), expectation{abi: 7, fs: true, net: "open"}},
		{"a folder may be written and executed", executing("/ws"), expectation{abi: 7, fs: true, net: "open"}},
		{"a folder may be executed", compile(t, policy.SourceLayer{FS: []policy.FSRule{{Path: "/ws", Caps: policy.Execute | policy.Read}}}), expectation{abi: 7, fs: true, exec: true, net: "open"}},
		{"a folder may be written, and nothing executed in it", compile(t, policy.SourceLayer{FS: []policy.FSRule{
			{Path: "/ws", Caps: all}, {Path: "/ws", Caps: all &^ policy.Execute},
		}}), expectation{abi: 7, fs: true, exec: true, net: "open"}},
		{"a folder that another authority may not execute", compileLayers(t, withAuthority(policy.Host, policy.SourceLayer{FS: []policy.FSRule{
			{Path: "/", Caps: all &^ policy.Execute},
		}}), withAuthority(policy.Session, policy.SourceLayer{FS: []policy.FSRule{{Path: "/ws", Caps: all}}})), expectation{abi: 7, fs: true, exec: true, net: "open"}},
		{"a folder may be written and executed by some commands", compile(t, policy.SourceLayer{
			FS: []policy.FSRule{{Path: "/ws", Caps: all}}, Defaults: [policy.NumResources]policy.DefaultAction{policy.Commands: policy.Deny},
		}), expectation{abi: 7, fs: true, exec: true, net: "open"}},
		{"files and no net, memory sealed", compile(t, fsNet), expectation{abi: 7, fs: true, exec: true, sealed: true, net: "nothing"}},
		{"some names may be executed", executing("/**/x"), expectation{abi: 7, fs: true, exec: true, net: "open"}},
		{"some commands", compile(t, denies(policy.Commands)), expectation{abi: 7, exec: true, net: "open"}},
		{"default allow", compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{
			policy.FS: policy.Allow, policy.Net: policy.Allow, policy.Commands: policy.Allow,
		}}), expectation{abi: 7, net: "open"}},
		{"tcp", compile(t, with(policy.SourceLayer{}, tcp)), expectation{abi: 7, net: "t"}},
		{"udp", compile(t, with(policy.SourceLayer{}, udp)), expectation{abi: 7, net: "u"}},
		{"tcp and udp", compile(t, with(policy.SourceLayer{}, tcp, udp)), expectation{abi: 7, net: "tu"}},
		{"listening", compile(t, with(policy.SourceLayer{}, server)), expectation{abi: 7, net: "tl"}},
		{"listening, addresses decided elsewhere", compile(t, with(policy.SourceLayer{}, server)), expectation{abi: 7, decidedElsewhere: true, net: "tul"}},
		{"tcp, addresses decided elsewhere", compile(t, with(policy.SourceLayer{}, tcp)), expectation{abi: 7, decidedElsewhere: true, net: "tu"}},
		{"no net, addresses decided elsewhere", compile(t, denies(policy.Net)), expectation{abi: 7, decidedElsewhere: true, net: "nothing"}},
		{"only a denial", compile(t, with(policy.SourceLayer{}, deny)), expectation{abi: 7, net: "nothing"}},
		{"two authorities", compileLayers(t, withAuthority(policy.Host, with(policy.SourceLayer{}, tcp, udp)),
			withAuthority(policy.Session, with(policy.SourceLayer{}, server))), expectation{abi: 7, net: "t"}},
		{"namespaces", compile(t, namespacesTrue(fsNet)), expectation{abi: 7, fs: true, exec: true, namespaces: true, net: "nothing"}},
		{"namespaces for the session alone", compileLayers(t, withAuthority(policy.Host, fsNet),
			withAuthority(policy.Session, namespacesTrue(fsNet))), expectation{abi: 7, fs: true, exec: true, net: "nothing"}},
		{
			"strict", compile(t, syscalls(fsNet, policy.Syscalls{Profile: "strict"})),
			expectation{abi: 7, fs: true, exec: true, strict: true, net: "nothing"},
		},
		{
			"strict alone", compile(t, syscalls(policy.SourceLayer{}, policy.Syscalls{Profile: "strict"})),
			expectation{abi: 7, strict: true, net: "open"},
		},
		{
			"names", compile(t, syscalls(policy.SourceLayer{}, policy.Syscalls{
				Allow: []string{"io_uring_setup", "bpf", "file_setattr"}, Deny: []string{"getpid", "ioctl", "file_getattr"},
			})),
			expectation{
				abi: 7, net: "open", allow: []uint32{unix.SYS_BPF},
				deny: []uint32{unix.SYS_GETPID, unix.SYS_IOCTL}, file_setattr: true, noRings: true,
			},
		},
		{
			"io_uring, all seen", compile(t, syscalls(fsNet, policy.Syscalls{Allow: rings})), expectation{
				abi: FullMediation, fs: true, exec: true, net: "nothing",
				allow: []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER},
			},
		},
		{
			"io_uring, addresses decided elsewhere", compile(t, syscalls(with(policy.SourceLayer{}, tcp), policy.Syscalls{Allow: rings})), expectation{
				abi: FullMediation, decidedElsewhere: true, net: "tu", allow: []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER},
			},
		},
		{"io_uring, ports alone", compile(t, syscalls(with(policy.SourceLayer{}, tcp), policy.Syscalls{Allow: rings})), expectation{abi: FullMediation, net: "t", noRings: true}},
		{
			"every other call", compile(t, syscalls(policy.SourceLayer{}, policy.Syscalls{Deny: everyOther()})),
			expectation{abi: 7, net: "open", deny: everyOtherNumber()},
		},
		{"two authorities' names", compileLayers(t, host, session), expectation{abi: 7, net: "open", deny: []uint32{unix.SYS_KCMP}}},
		{"names and an authority without", compileLayers(t, withAuthority(policy.Host, fsNet), withAuthority(policy.Session,
			syscalls(fsNet, policy.Syscalls{Allow: []string{"bpf"}}))), expectation{abi: 7, fs: true, exec: true, net: "nothing", allow: []uint32{unix.SYS_BPF}}},
	}
}

// everyOther are as many calls as make the longest program: no two denied ones have adjacent numbers.
func everyOther() (names []string) {
	for _, nr := range everyOtherNumber() {
		names = append(names, Name(nativeArch, int(nr)))
	}
	return names
}

func everyOtherNumber() (nrs []uint32) {
	for nr := uint32(1); nr <= newest; nr += 2 {
		if name := Name(nativeArch, int(nr)); name != "" && !slices.Contains(needed, name) {
			nrs = append(nrs, nr)
		}
	}
	return nrs
}

// TestFiltersAreTheModel runs the assembled programs over every number with hostile arguments and compares with the plain model and the
// library's filters. Foreign ABIs and numbers beyond the library's tables are compared only with the model.
func TestFiltersAreTheModel(t *testing.T) {
	seen := map[answer]int{}
	for _, mc := range modelCases(t) {
		t.Run(mc.name, func(t *testing.T) {
			if mc.name != "names" {
				mc.file_get = true
			}
			o := Backend{ABI: mc.abi, Net: mc.decidedElsewhere, Sealed: mc.sealed}
			filters, err := Filters(mc.c, o)
			must(t, err)
			rules, err := denials(mc.c, o)
			must(t, err)
			if DeniesRings(mc.c, o) != mc.noRings {
				t.Errorf("io_uring is reported as denied: %v", !mc.noRings)
			}
			checkModel(t, filters, byLibrary(t, rules), mc.expectation, seen)
		})
	}
	for _, a := range []answer{0, killed_, unix.EPERM, unix.EACCES, unix.ENOSYS} {
		if seen[a] == 0 {
			t.Errorf("the model never said %v: the test is empty", a)
		}
	}
}

func checkModel(t *testing.T, filters, library []Filter, s expectation, seen map[answer]int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	check := func(d data) {
		got, want := verdict(filters, &d), s.model(d.arch, d.nr, d.args)
		seen[want]++
		if got != code(want) {
			t.Fatalf("%s (%d, arch %#x) args %#x: the filters say %#x, the model %#x (%v)",
				Name(d.arch, int(d.nr)), d.nr, d.arch, d.args, got, code(want), want)
		}
		if says := verdict(library, &d); d.arch == nativeArch && d.nr <= newest && got != says {
			t.Fatalf("%s (%d) args %#x: the filters say %#x, the library %#x", Name(d.arch, int(d.nr)), d.nr, d.args, got, says)
		}
		if silent := run(filters[1].Program, &d) != unix.SECCOMP_RET_ALLOW; silent != (want > 0 && want < killed_ && s.unlogged(d.nr, d.args)) {
			t.Fatalf("%s args %#x: denied without a record: %v", Name(d.arch, int(d.nr)), d.args, silent)
		}
	}
	for _, args := range sockets() {
		check(data{nr: unix.SYS_SOCKET, arch: nativeArch, args: args})
	}
	for _, nr := range numbers() {
		vectors := 12
		if in(nr, hostile) {
			vectors = 1000
		}
		for range vectors {
			check(data{nr: nr, arch: nativeArch, ip: rnd.Uint64(), args: arguments(rnd)})
		}
		for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_AARCH64, 0, ^uint32(0)} {
			check(data{nr: nr, arch: arch, args: arguments(rnd)})
		}
	}
}

func code(a answer) uint32 {
	switch a {
	case 0:
		return unix.SECCOMP_RET_ALLOW
	case killed_:
		return unix.SECCOMP_RET_KILL_PROCESS
	}
	return unix.SECCOMP_RET_ERRNO | uint32(a)
}

// numbers is every number that a table could have, and those around the x32 bit and the sign.
func numbers() (nrs []uint32) {
	for nr := range uint32(600) {
		nrs = append(nrs, nr, nr|0x40000000)
	}
	return append(nrs, 0x3fffffff, 0x7fffffff, 0x80000000, 0x80000010, 0xbfffffff, 0xc0000000, 0xfffffffe, 0xffffffff)
}

// hostile are the calls whose arguments matter to some filter.
var hostile = []uint32{
	unix.SYS_IOCTL, unix.SYS_CLONE, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_PRLIMIT64, unix.SYS_MEMFD_CREATE,
	unix.SYS_PTRACE, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
	unix.SYS_LISTEN, unix.SYS_OPEN, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_TRUNCATE, unix.SYS_PERSONALITY,
	unix.SYS_FCNTL, unix.SYS_CHMOD, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, 452, // fchmodat2
	unix.SYS_SETSOCKOPT,
}

// sockets are the arguments for every kind of socket that means something to a filter, and some others.
func sockets() (list [][6]uint64) {
	for _, family := range []uint64{0, 1, 2, 3, 10, 16, 17, 1<<32 | 2} {
		for kind := range uint64(16) {
			for _, flags := range []uint64{0, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
				for _, protocol := range []uint64{0, 1, 6, 17, 58, 132, 262, 1<<32 | 6} {
					list = append(list, [6]uint64{family, kind | flags, protocol})
				}
			}
		}
	}
	return list
}

// arguments are made of values that mean something to a filter, numbers of other calls (which a clobbered accumulator
// would be compared with), and these with the bits that the kernel cuts off.
func arguments(rnd *rand.Rand) (a [6]uint64) {
	for i := range a {
		switch rnd.IntN(4) {
		case 0:
			a[i] = rnd.Uint64N(20)
		case 1:
			a[i] = meaningful[rnd.IntN(len(meaningful))]
		case 2:
			a[i] = meaningful[rnd.IntN(len(meaningful))]
			a[i] |= meaningful[rnd.IntN(len(meaningful))]
		case 3:
			a[i] = rnd.Uint64N(480)
		}
		switch rnd.IntN(6) {
		case 0:
			a[i] |= rnd.Uint64N(4) << 32
		case 1:
			a[i] |= 1 << rnd.IntN(64)
		case 2:
			a[i] |= 0xffffffff_00000000
		}
	}
	return a
}

var meaningful = []uint64{
	0, 1, 2, 3, 5, 6, 7, 8, 10, 16, 17, 20, 27, 35, 39, 40, 41, 42, 46, 58, 262, 0x10, 0x800, 0x80000, 0x5412, 0x541c, 0x541e, 0x5413,
	1024, 1025, 1040, 0o4755, 0o2711, 0x5402, unix.O_TRUNC, unix.O_CREAT, unix.O_RDWR | unix.O_TRUNC, 3 | unix.O_TRUNC, 0x20000000, 0x40000000, 0x80000000, 0x80,
	unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWPID, unix.CLONE_NEWCGROUP, unix.CLONE_NEWIPC,
	unix.CLONE_NEWUTS, 0x4100 | 17, unix.CLONE_FILES, unix.CLONE_FS, unix.CLONE_SIGHAND,
	unix.CLONE_THREAD, unix.CLONE_SYSVSEM, ^uint64(0), 1 << 32, 1<<32 | 2, 1<<32 | 0x5412, 1<<63 | 0x541c, 0xfffffffe,
}

// TestEveryComparisonKnowsItsWord follows all ways through the programs at once: what is compared is always the same one
// word of the call, numbers are only compared before an argument was loaded, and every way ends in a return.
func TestEveryComparisonKnowsItsWord(t *testing.T) {
	for _, mc := range modelCases(t) {
		filters, err := Filters(mc.c, Backend{ABI: mc.abi, Net: mc.decidedElsewhere, Sealed: mc.sealed})
		must(t, err)
		blocks := 0
		for i, f := range filters {
			n, err := follow(f.Program)
			if err != nil {
				t.Errorf("%s: filter %d: %v", mc.name, i, err)
			}
			blocks += n
		}
		if blocks == 0 {
			t.Errorf("%s: no filter looks at an argument", mc.name)
		}
		var flags []uintptr
		for _, f := range filters {
			_, with, _ := f.Args()
			flags = append(flags, with)
		}
		if !slices.Equal(flags, []uintptr{unix.SECCOMP_FILTER_FLAG_LOG, 0}) {
			t.Errorf("%s: want one filter, and a silent one after it", mc.name)
		}
	}
}

// follow returns how many times the program loads a word of an argument.
func follow(prog []unix.SockFilter) (loads int, err error) {
	const nothing = -1
	words := make([]map[int]bool, len(prog)+1) // the words that may be in the accumulator before an instruction
	for i := range words {
		words[i] = map[int]bool{}
	}
	words[0][nothing] = true
	for pc, in := range prog {
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			for w := range words[pc] {
				if w >= 16 && in.K < 16 {
					return 0, fmt.Errorf("%d loads word %d after an argument", pc, in.K)
				}
			}
			if in.K >= 16 {
				loads++
			}
			words[pc+1][int(in.K)] = true
		case unix.BPF_RET | unix.BPF_K:
		case unix.BPF_JMP | unix.BPF_JA:
			maps.Copy(words[pc+1+int(in.K)], words[pc])
		default:
			if len(words[pc]) != 1 || words[pc][nothing] {
				return 0, fmt.Errorf("%d compares one of the words %v", pc, words[pc])
			}
			maps.Copy(words[pc+1+int(in.Jt)], words[pc])
			maps.Copy(words[pc+1+int(in.Jf)], words[pc])
		}
		if len(words[pc]) == 0 {
			return 0, fmt.Errorf("nothing leads to %d", pc)
		}
	}
	if len(words[len(prog)]) != 0 {
		return 0, errors.New("a way leads past the end")
	}
	return loads, nil
}
