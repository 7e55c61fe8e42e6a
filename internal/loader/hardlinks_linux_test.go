package loader

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A rule about a file applies under all of its hard links, on file systems that number their files differently, and only as
// long as the rule does.
func TestHardLinks(t *testing.T) {
	k := kernel(t)
	for _, place := range []string{"/tmp", "/var/tmp", "/mnt/tmpfs", "/mnt/btrfs"} {
		if _, err := os.Stat(place); err != nil {
			continue
		}
		_ = exec.Command("mount", place).Run() // by fstab, where it isn't
		t.Run(place, func(t *testing.T) { hardLinks(t, k, place) })
	}
}

func hardLinks(t *testing.T, k *Kernel, place string) {
	dir, err := os.MkdirTemp(place, "links-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	in := func(name string) string { return filepath.Join(dir, name) }
	err = errors.Join(os.Mkdir(in("all"), 0o755), os.WriteFile(in("file"), nil, 0o644), os.Link(in("file"), in("all/link")),
		os.WriteFile(in("all/other"), nil, 0o644), os.WriteFile(in("all/another"), nil, 0o644))
	must(t, err)
	images := make([]*image.Image, 2)
	for i, caps := range []string{"read", "read+update+delete"} {
		images[i] = mountedImage(t, in("all")+" read+create+update+delete", in("file")+" "+caps)
	}
	s, err := k.Begin(newID(), images[0], 0)
	must(t, err)
	write := func(name string) error {
		f, err := os.OpenFile(in(name), os.O_WRONLY, 0)
		return errors.Join(err, f.Close())
	}
	confined(t, s, func() {
		for name, err := range map[string]error{
			"written":         write("all/link"),
			"renamed":         os.Rename(in("all/link"), in("all/renamed")),
			"renamed over":    os.Rename(in("all/other"), in("all/link")),
			"removed":         os.Remove(in("all/link")),
			"written, linked": errors.Join(os.Link(in("all/link"), in("all/third")), write("all/third")),
		} {
			if !errors.Is(err, unix.EACCES) {
				t.Errorf("a file that may only be read was %s by another name: %v", name, err)
			}
		}
		if !may(t, in("all/link")) || !may(t, in("all/third")) {
			t.Error("a readable file can't be read by another name")
		}
		if err := write("all/another"); err != nil {
			t.Errorf("another file: %v", err)
		}
		done := make(chan error)
		go func() { done <- s.Reload(images[1]) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := write("all/link"); err != nil {
			t.Errorf("when the rule grants update: %v", err)
		}
	})
	if _, err := s.End(); err != nil {
		t.Fatal(err)
	}
}

// mountedImage is the image of rules, compiled with this machine's mounts.
func mountedImage(t *testing.T, rules ...string) *image.Image {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	all, err := fspath.ParseMounts(string(text))
	must(t, err)
	c, err := tryCompileOn(tree{Extra: all}, rules...)
	must(t, err)
	if len(c.Links) != 1 || c.Links[0].Dev == 0 {
		t.Fatalf("the hard link isn't known: %+v", c.Links)
	}
	img, err := image.New(c, 1)
	must(t, err)
	return img
}

// Of two paths, the event is about the denied one.
func TestSecondPath(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	s, _ := begin(t, k, dir+" read+create+update+delete")
	deep := beneath(t, dir, "d", 2*fspath.MaxDepth)
	var h *collected
	confined(t, s, func() {
		h = listen(s)
		if err := unix.Renameat(unix.AT_FDCWD, dir+"/file", deep, "file"); !errors.Is(err, unix.EACCES) {
			t.Errorf("renamed to where no policy is followed: %v", err)
		}
	})
	end(t, s)
	if len(h.events) != 1 {
		t.Fatalf("%+v", h.events)
	}
	e := h.events[0]
	if e.Why != WhyUnresolved || e.Walk != WalkDeep || len(e.Paths) != 2 || e.Paths[0].Path != dir+"/file" ||
		e.Paths[0].Need&^e.Paths[0].Have != 0 || e.Paths[1].Have != 0 {
		t.Errorf("%+v", e)
	}
}

// beneath makes so many folders of that name, each in the one before, and returns the last one, by which none needs a path.
func beneath(t *testing.T, dir, name string, depth int) (fd int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	for i := 0; i < depth && err == nil; i++ {
		up := fd
		if err = unix.Mkdirat(up, name, 0o755); err == nil {
			fd, err = unix.Openat(up, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		unix.Close(up)
	}
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}
