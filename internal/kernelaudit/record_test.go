package kernelaudit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

// Records as Linux 6.18 wrote them.
const (
	accessText  = `audit(1795248394.121:21): domain=1e6f0d431 blockers=fs.make_reg,fs.refer path="/tmp/d/dd" dev="vda" ino=9978001`
	domainText  = `audit(1795248394.089:8): domain=1e6f0d431 status=allocated mode=enforcing pid=10755 uid=0 exe="/usr/bin/python3.11" comm="python3"`
	endedText   = `audit(1795248394.173:26): domain=1e6f0d431 status=deallocated denials=20`
	signalText  = `audit(1795248562.565:69): domain=1e6f0d441 blockers=scope.signal opid=1 ocomm="process_api"`
	bindText    = `audit(1795248562.573:71): domain=1e6f0d441 blockers=net.bind_tcp saddr=127.0.0.1 src=9999`
	syscallText = `audit(1795248394.121:21): arch=c000003e syscall=82 success=no exit=-13 a0=7f0fadb73680 a1=7f0fadb704d0 a2=0 ` +
		`a3=557efe407ae0 items=0 ppid=10753 pid=10755 auid=0 uid=0 gid=0 euid=0 suid=0 fsuid=0 egid=0 sgid=0 fsgid=0 ` +
		`tty=(none) ses=3 comm="python3.11" exe="/usr/bin/python3.11" key=(null)`
	seccompText = `audit(1795248562.573:73): auid=0 uid=0 gid=0 ses=5 pid=18176 comm="python3.11" exe="/usr/bin/python3.11" ` +
		`sig=0 arch=c000003e syscall=101 compat=0 ip=0x7f6c90f1d34a code=0x50000`
)

// parseRecord reads the text of a record.
func parseRecord(kind uint16, text string) (record, error) {
	r := record{kind: kind}
	rest, err := r.header(text)
	if err != nil {
		return r, err
	}
	return r, r.split(rest)
}

func parse(t *testing.T, kind uint16, text string) *record {
	t.Helper()
	r, err := parseRecord(kind, text)
	must(t, err)
	return &r
}

func TestDecode(t *testing.T) {
	d, err := decodeAccess(parse(t, typeLandlockAccess, accessText))
	if err != nil || d.Domain != 0x1e6f0d431 || d.Path != "/tmp/d/dd" || d.Device != "vda" || d.Inode != 9978001 || d.Serial != 21 ||
		fmt.Sprint(d.Blockers) != "[fs.make_reg fs.refer]" || d.Time.UnixMilli() != 1795248394121 || d.Session != NoSession || d.UID != -1 {
		t.Errorf("access: %+v, %v", d, err)
	}
	c, err := decodeSyscall(parse(t, typeSyscall, syscallText))
	must(t, err)
	c.describe(d)
	if d.PID != 10755 || d.PPID != 10753 || d.UID != 0 || d.Session != 3 || d.Errno != 13 || d.Call != (Call{0xc000003e, 82, true}) ||
		d.Comm != "python3.11" || d.Exe != "/usr/bin/python3.11" {
		t.Errorf("syscall: %+v", d)
	}
	if d, err := decodeAccess(parse(t, typeLandlockAccess, signalText)); err != nil || d.PeerPID != 1 || d.PeerComm != "process_api" {
		t.Errorf("signal: %+v, %v", d, err)
	}
	if d, err := decodeAccess(parse(t, typeLandlockAccess, bindText)); err != nil || d.Local != "127.0.0.1:9999" || d.Remote != "" {
		t.Errorf("bind: %+v, %v", d, err)
	}
	if d, err := decodeSeccomp(parse(t, typeSeccomp, seccompText)); err != nil || d.PID != 18176 || d.Session != 5 || d.Action != 0x50000 ||
		d.Call != (Call{0xc000003e, 101, true}) {
		t.Errorf("seccomp: %+v, %v", d, err)
	}
	if d, err := decodeDomain(parse(t, typeLandlockDomain, domainText)); err != nil || d != (domain{0x1e6f0d431, false, 10755, 0, "python3", 0}) {
		t.Errorf("domain: %+v, %v", d, err)
	}
	if d, err := decodeDomain(parse(t, typeLandlockDomain, endedText)); err != nil || d != (domain{0x1e6f0d431, true, 0, -1, "", 20}) {
		t.Errorf("end of a domain: %+v, %v", d, err)
	}
}

// TestMalformed checks that a text is rejected unless it is in the kernel's exact format.
func TestMalformed(t *testing.T) {
	for _, text := range []string{
		"", "audit(", "audit(1.1:1)", "audit(1:1): a=b", "audit(1.1): a=b", "audit(x.1:1): a=b", "audit(1.1:x): a=b",
		"audit(1.1:1): noequals", "audit(1.1:1): a=b c", `audit(1.1:1): a="open`, `audit(1.1:1): a="x"y`, `audit(1.1:1): a="x"b=c`,
		`audit(1.1:1): a="`, `audit(1.1:1): a=" b=c"`, `audit(1.1:1): a="""`,
		"audit(1.1:1): pid=1 pid=2", "audit(1.1:1): Pid=1", "audit(1.1:1): =1", "audit(1.1:1): pid =1", "audit(1.1:1): pid=1\nuid=0",
		`audit(1.1:1): exe="a b"`, "audit(1.1:1): exe=\"a\nb\"", "audit(1.1:1): exe=\xff",
	} {
		if r, err := parseRecord(typeSyscall, text); err == nil {
			t.Errorf("%q was read as %v", text, r.fields)
		}
	}
	const head = "audit(1.1:1): "
	for _, text := range []string{
		"blockers=fs.execute", "domain=1", "domain=x blockers=fs.execute", "domain=1 blockers=fs.execute path=xyz",
		"domain=1 blockers=fs.execute path=/plain", "domain=1 blockers=fs.execute ino=-x", "domain=1 blockers=scope.signal opid=1.5",
	} {
		if _, err := decodeAccess(parse(t, typeLandlockAccess, head+text)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := decodeSyscall(parse(t, typeSyscall, head+"pid=1 arch=c000003e syscall=1")); !errors.Is(err, errMalformed) {
		t.Errorf("without a session: %v", err)
	}
}

// kernelQuote writes a name as audit_log_untrustedstring does: quoted when every byte is printable ASCII other than
// space and quote, else in upper-case hexadecimal.
func kernelQuote(s string) string {
	for _, c := range []byte(s) {
		if c == '"' || c < 0x21 || c > 0x7e {
			return strings.ToUpper(hex.EncodeToString([]byte(s)))
		}
	}
	return `"` + s + `"`
}

// FuzzNames checks that any name of a file or process is read exactly, and that no other field changes.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"/a", `" ino=1 dev="`, "a b", "\n", "\xff", "41", "(null)", "=", "\x00x", "é"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, path, comm string) {
		text := "audit(1.002:3): domain=a blockers=fs.read_file path=" + kernelQuote(path) + ` dev="vda" ino=7`
		d, err := decodeAccess(parse(t, typeLandlockAccess, text))
		want := path
		if path == "<too_long>" || path == "<no_memory>" {
			want = ""
		}
		if err != nil || d.Path != want || d.Inode != 7 || d.Device != "vda" || d.Domain != 10 || d.Serial != 3 {
			t.Fatalf("%s: %+v, %v", text, d, err)
		}
		text = "audit(1.002:3): ppid=1 pid=2 uid=3 ses=4 comm=" + kernelQuote(comm) + " exe=" + kernelQuote(path) +
			" arch=c000003e syscall=5 exit=-13 key=(null)"
		c, err := decodeSyscall(parse(t, typeSyscall, text))
		if err != nil || c.comm != comm || c.exe != path || c.pid != 2 || c.uid != 3 || c.session != 4 || c.call.Number != 5 {
			t.Fatalf("%s: %+v, %v", text, c, err)
		}
	})
}

// FuzzRecord checks that no text panics or is parsed in part.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{accessText, domainText, endedText, signalText, bindText, syscallText, seccompText} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRecord(typeSyscall, text)
		if err != nil {
			return
		}
		for _, f := range r.fields {
			if !strings.Contains(text, f.key+"="+f.value) {
				t.Errorf("%q gave %s=%s", text, f.key, f.value)
			}
		}
		decodeAccess(&r)
		decodeSyscall(&r)
		decodeSeccomp(&r)
		decodeDomain(&r)
	})
}

// A right to create that the kernel checks before the lookup isn't a denial if an object has that name.
func TestMoot(t *testing.T) {
	const ok, denied = 0, syscall.EACCES
	for _, c := range []struct {
		denied []string // the blockers of each record
		caller *caller
		moot   bool // the first one
	}{
		{[]string{"fs.make_reg"}, &caller{returned: true, errno: denied}, false},
		{[]string{"fs.make_reg"}, &caller{returned: true, errno: ok}, true},
		{[]string{"fs.make_reg"}, &caller{returned: true, errno: syscall.ENXIO}, true},
		{[]string{"fs.make_reg", "fs.write_file"}, &caller{returned: true, errno: denied}, true},
		{[]string{"fs.make_reg", "fs.write_file,fs.truncate"}, &caller{returned: true, errno: denied}, true},
		{[]string{"fs.make_reg"}, &caller{}, false},
		{[]string{"fs.make_reg"}, nil, false},
		{[]string{"fs.write_file"}, &caller{returned: true, errno: ok}, false},
		{[]string{"scope.signal"}, &caller{returned: true, errno: ok}, false}, // one of the signal's many targets
		{[]string{"fs.remove_file,fs.make_reg"}, &caller{returned: true, errno: syscall.EXDEV}, false},
	} {
		var got []Denial
		a := newAssembler(func(d *Denial) { got = append(got, *d) })
		for _, b := range c.denied {
			a.access(&Denial{Serial: 1, Blockers: strings.Split(b, ",")})
		}
		a.finish(1, c.caller)
		if len(got) != len(c.denied) || got[0].Moot != c.moot || len(got) > 1 && got[1].Moot {
			t.Errorf("%v, %+v: %+v", c.denied, c.caller, got)
		}
	}
}

func TestAssemble(t *testing.T) {
	var got []Denial
	a := newAssembler(func(d *Denial) { got = append(got, *d) })
	add := func(serial uint64, path string) { a.access(&Denial{Serial: serial, Path: path}) }
	add(1, "a")
	add(2, "b") // from another processor
	add(1, "a2")
	a.finish(3, &caller{pid: 3}) // a call without denials
	a.finish(1, &caller{pid: 1})
	if len(got) != 2 || got[0].Path != "a" || got[0].PID != 1 || got[1].Path != "a2" || got[1].PID != 1 {
		t.Fatalf("%+v", got)
	}
	a.flush() // b's caller never arrived
	if len(got) != 3 || got[2].Path != "b" || got[2].PID != 0 || len(a.pending) != 0 {
		t.Fatalf("%+v", got)
	}
	for i := range uint64(2 * maxPending) {
		add(10+i, "x")
	}
	if len(a.pending) > maxPending || len(got) < 3+maxPending {
		t.Errorf("%d pending, %d emitted", len(a.pending), len(got))
	}
	a.flush()
	if len(got) != 3+2*maxPending {
		t.Errorf("%d emitted", len(got))
	}
}
