package loader

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/loader/loadertest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// asker asks the matcher in this machine's kernel.
type asker struct {
	k      *Kernel // for its images only
	prog   *ebpf.Program
	opened *ebpf.Program
	work   *askWork
}

func newAsker(t testing.TB) *asker {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	a, err := openAsker()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("needs a kernel that loads programs: %v", err)
	}
	if err != nil {
		t.Fatalf("%+v", err)
	}
	return a
}

// openAsker is shared by all tests: verifying its programs takes an emulated machine 7 seconds.
var openAsker = sync.OnceValues(func() (*asker, error) {
	var o askObjects
	if err := loadAskObjects(&o, nil); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(o.Works.FD(), 0, int(unsafe.Sizeof(askWork{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &asker{&Kernel{images: o.Images}, o.Ask, o.Opened, (*askWork)(unsafe.Pointer(&mem[0]))}, nil
})

// follow sets the policy whose capabilities ask returns.
func (a *asker) follow(c *policy.Compiled) error {
	img, err := image.New(c, 1)
	if err != nil {
		return err
	}
	return a.k.write(img, extent{0, uint32(img.Lines())})
}

// ask asks about an open file. hot is for the quick matcher.
func (a *asker) ask(fd int, need policy.Caps, hot bool) (policy.Caps, error) {
	a.work.Q.Fd, a.work.Q.Need, a.work.Q.Hot, a.work.Q.Rounds = uint32(fd), uint32(need), 0, 1
	if hot {
		a.work.Q.Hot = 1
	}
	if _, err := a.prog.Run(&ebpf.RunOptions{}); err != nil {
		return 0, err
	}
	if w := Walk(a.work.M.Status); w != WalkOK {
		return 0, fmt.Errorf("the walk ended %s", w)
	}
	return policy.Caps(a.work.M.Caps & a.work.M.Linked), nil
}

// The kernel and the evaluator have one opinion, about every path and every policy.
func TestAgree(t *testing.T) {
	a := newAsker(t)
	r := rand.New(rand.NewPCG(1, 2))
	narrower, byHardLink, rounds := 0, 0, 12
	if os.Getenv("TOOLGUARD_VM") != "" { // the program is the same as on the machine itself, and an emulated one is slow
		rounds = 2
	}
	for round := range rounds {
		files := grow(t, r)
		for range 25 {
			c := randomPolicy(t, r, files)
			must(t, a.follow(c))
			for _, f := range files {
				if err := a.compare(c, f); err != nil {
					t.Fatalf("round %d: %v%s", round, err, rulesOf(c))
				}
				plain := *c
				plain.Aliases = nil
				if plain.Caps(f.path) != c.Caps(f.path) {
					narrower++
				}
				if v, _ := c.CheckFSInput(tree{}, f.path, policy.Read); c.CheckFS(f.path, policy.Read).Allow && !v.Allow {
					byHardLink++
				}
			}
		}
		for _, f := range files {
			_ = unix.Close(f.fd)
		}
	}
	if narrower < 8*rounds || byHardLink < rounds {
		t.Errorf("an alias removed capabilities %d times, and a hard link %d times: too few to compare", narrower, byHardLink)
	}
}

// compare compares the capabilities on a file, and the rule that denies the others, in the kernel and in the policy.
func (a *asker) compare(c *policy.Compiled, f open) error {
	for _, hot := range []bool{true, false} {
		for need := policy.Read; need <= policy.Execute; need <<= 1 {
			caps, err := a.ask(f.fd, need, hot)
			if err != nil {
				return fmt.Errorf("%q: %w", f.path, err)
			}
			v := c.CheckFS(f.path, need)
			if len(c.Links) > 0 {
				v, _ = c.CheckFSInput(tree{}, f.path, need)
			}
			if v.Allow != (caps&need != 0) {
				return fmt.Errorf("%q (hot %v): the kernel grants %s, the policy's decision on %[5]s is %[4]v", f.path, hot, caps, v.Allow, need)
			}
			if layer, rule := a.denier(); !v.Allow && (layer != v.Layer || c.SharedRule(int(layer), rule) != v.Rule) {
				return fmt.Errorf("%q, %s (hot %v): denied by layer %d and rule %d in the kernel, by %d and %d in the policy",
					f.path, need, hot, layer, rule, v.Layer, v.Rule)
			}
		}
	}
	return nil
}

func (a *asker) denier() (layer int16, rule int32) {
	return int16(int32(a.work.M.Layer)), int32(image.Rule(a.work.M.Hit))
}

// What a path is doesn't depend on mounts on the way, on a root of one's own, or on whose /proc it is.
func TestAgreeElsewhere(t *testing.T) {
	a := newAsker(t)
	for name, way := range ways {
		dir := scene(t, "granted/file", "granted/secret/file", "other/file")
		err := childtest.Thread(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			return way(a, dir)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var ways = map[string]func(a *asker, dir string) error{
	// A mount in a mount, and files in them.
	"mounts": func(a *asker, dir string) error {
		for _, m := range []string{dir + "/granted/secret", dir + "/granted/secret/inner"} {
			if err := errors.Join(os.MkdirAll(m, 0o755), unix.Mount("tmpfs", m, "tmpfs", 0, "")); err != nil {
				return err
			}
		}
		file := dir + "/granted/secret/inner/file"
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			return err
		}
		return a.agree(file, file, dir+"/granted read", dir+"/granted/secret none", dir+"/granted/secret/inner update")
	},
	// The path is that of the mount that it was opened through.
	"bind mount": func(a *asker, dir string) error {
		if err := unix.Mount(dir+"/granted/secret", dir+"/other", "", unix.MS_BIND, ""); err != nil {
			return err
		}
		return a.agree(dir+"/other/file", dir+"/other/file", dir+"/granted read", dir+"/granted/secret none", dir+"/other update")
	},
	"chroot": func(a *asker, dir string) error {
		if err := unix.Chroot(dir + "/granted"); err != nil {
			return err
		}
		c, err := tryCompile(dir+"/granted read", "/secret update", dir+"/granted/secret delete")
		if err != nil {
			return err
		}
		return a.agreeOn(c, "/secret/file", dir+"/granted/secret/file")
	},
	"process": func(a *asker, _ string) error {
		rules := []string{"/proc read", "/proc/self update", "/proc/self/status delete"}
		return errors.Join(
			a.agree("/proc/self/status", "/proc/self/status", rules...),
			a.agree("/proc/self/stat", "/proc/self/stat", rules...),
			a.agree("/proc/1/status", "/proc/1/status", rules...),
			a.agree("/proc/meminfo", "/proc/meminfo", rules...),
			// A pattern knows the process's folder by the name that the policy has for it, beneath all that rules name.
			a.agree("/proc/self/status", "/proc/self/status", "/ read", "/**/self/status none"),
			a.agree("/proc/self/stat", "/proc/self/stat", "/ read", "/**/self/status none"),
		)
	},
	// The files of a process's folder have the same names where the folder is mounted elsewhere.
	"process elsewhere": func(a *asker, dir string) error {
		if err := unix.Mount("/proc/self", dir+"/other", "", unix.MS_BIND, ""); err != nil {
			return err
		}
		status, fd := dir+"/other/status", dir+"/other/fd"
		return errors.Join(
			a.agree(status, status, "/ read", status+" none"),
			a.agree(status, status, "/ read", "/**/status none"),
			a.agree(fd, fd, "/ read", "/**/fd none"),
		)
	},
	// As deep as the policy follows, and one more.
	"deep": func(a *asker, dir string) error {
		c, err := tryCompile(dir + " read")
		if err != nil {
			return err
		}
		deep := dir
		for strings.Count(deep, "/") < fspath.MaxDepth {
			deep += "/d"
			if err := os.Mkdir(deep, 0o755); err != nil {
				return err
			}
		}
		if err := a.agreeOn(c, deep, deep); err != nil {
			return err
		}
		if err := os.Mkdir(deep+"/d", 0o755); err != nil {
			return err
		}
		if err := a.agreeOn(c, deep+"/d", deep+"/d"); err == nil || !strings.Contains(err.Error(), WalkDeep.String()) {
			return fmt.Errorf("one more: %w", err)
		}
		return nil
	},
}

// agree compares both decisions about the file that is opened as name and has path in the policy.
func (a *asker) agree(name, path string, rules ...string) error {
	c, err := tryCompile(rules...)
	if err != nil {
		return err
	}
	return a.agreeOn(c, name, path)
}

func (a *asker) agreeOn(c *policy.Compiled, name, path string) error {
	if err := a.follow(c); err != nil {
		return err
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return a.compare(c, open{path, fd})
}

// Names with the same hash are distinguished by their text, as names of folders and in patterns.
func TestAgreeOnOneHash(t *testing.T) {
	a := newAsker(t)
	for _, pattern := range []bool{false, true} {
		header := uint32(0) // the first seed's
		if pattern {
			header = 1 // with a word of patterns' bits
		}
		one, other := "", ""
		for r, seen := rand.New(rand.NewPCG(1, 2)), map[uint32]string{}; one == ""; {
			name := fmt.Sprintf("n%016xn", r.Uint64()) // the filter of first and last bytes distinguishes none
			h := image.HashName(name, header)
			one, other = seen[h], name
			seen[h] = name
		}
		dir := scene(t, one+"/file", other+"/file")
		rule := dir + "/" + one + " none"
		if pattern {
			rule = "/**/" + one + " none"
		}
		c := compile(t, "/ read", rule)
		for name, want := range map[string]bool{one: false, other: true} {
			f := opened(t, dir+"/"+name+"/file")
			if err := errors.Join(a.follow(c), a.compare(c, f)); err != nil || c.CheckFS(f.path, policy.Read).Allow != want {
				t.Error(err, name, rulesOf(c))
			}
			_ = unix.Close(f.fd)
		}
	}
}

// A preset only grants, so that it denies nothing under an alias, not even where it grants nothing.
func TestPresetByAnotherName(t *testing.T) {
	a := newAsker(t)
	dir := scene(t, "here/file", "there/x/file")
	f := opened(t, dir+"/here/file")
	defer unix.Close(f.fd)
	layer := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{
		{Path: "/", Caps: policy.Read},
		{Match: "/**/x", Position: policy.Position{File: "preset:x"}},
		{Path: dir + "/there/x/other", Caps: policy.Update}, // without such a rule the alias has no effect
	}}
	layer.Defaults[policy.FS] = policy.Deny
	mounts := []fspath.Mount{{ID: 1, Root: "/", At: "/"}, {ID: 2, Parent: 1, Root: dir + "/there/x", At: dir + "/here"}}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, tree{Extra: mounts})
	must(t, err)
	if len(c.Aliases) == 0 || c.Caps(f.path) != policy.Read {
		t.Fatalf("the policy grants %v, with the aliases %v", c.Caps(f.path), c.Aliases)
	}
	if err := errors.Join(a.follow(c), a.compare(c, f)); err != nil {
		t.Error(err, rulesOf(c))
	}
}

// Every layer decides at a path with the maximum number of hits in all layers.
func TestManyHits(t *testing.T) {
	a := newAsker(t)
	f := opened(t, scene(t, "file")+"/file")
	defer unix.Close(f.fd)
	all := loadertest.ManyHits(t, f.path)
	must(t, a.follow(all))
	for _, hot := range []bool{true, false} {
		if caps, err := a.ask(f.fd, policy.Read, hot); err != nil || caps&policy.Read != 0 {
			t.Errorf("the kernel grants %s (hot %v), %v, which the last layer denies", caps, hot, err)
		}
	}
}
