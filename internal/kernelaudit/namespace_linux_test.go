package kernelaudit

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

// If Permitted fails, Open fails too.
func TestPermitted(t *testing.T) {
	reader(t) // skips where no records can be read
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	must(t, unix.Capget(&header, &all[0]))
	if err := Permitted(); err != nil {
		t.Errorf("with all capabilities: %v", err)
	}
	less := all
	less[unix.CAP_AUDIT_READ/32].Effective &^= 1 << (unix.CAP_AUDIT_READ % 32)
	must(t, unix.Capset(&header, &less[0]))
	before := Permitted()
	r, err := Open()
	must(t, unix.Capset(&header, &all[0]))
	if err == nil {
		r.Close()
	}
	for _, err := range []error{before, err} {
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_AUDIT_READ is missing") {
			t.Errorf("without CAP_AUDIT_READ: %v", err)
		}
	}
}

// TestOtherNetNamespace checks that a reader outside the first network namespace reports soon that it receives nothing.
func TestOtherNetNamespace(t *testing.T) {
	reader(t) // skips where no records can be read
	var r *Reader
	must(t, Permitted())
	if err := nettest.InNamespace(func() (err error) {
		if beforehand := Permitted(); !errors.Is(beforehand, ErrUnavailable) || !strings.Contains(beforehand.Error(), "network namespace") {
			t.Errorf("beforehand: %v", beforehand)
		}
		r, err = Open()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := r.Watch(Session{Audit: 1}, func(Denial) {})
	must(t, err)
	r.Listen()
	began := time.Now()
	_, atEnd := w.Finish(context.Background())
	for _, err := range []error{atEnd, r.Prove()} {
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "network namespace") {
			t.Error(err)
		}
	}
	if took := time.Since(began); r.Proven() || took > 20*quietTimeout {
		t.Errorf("proven: %v, after %v", r.Proven(), took)
	}
}
