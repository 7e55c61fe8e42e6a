package streams

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestMain is also the process whose streams the tests replace.
func TestMain(m *testing.M) {
	if os.Getenv("STREAMS_TEST") == "" {
		os.Exit(m.Run())
	}
	if err := capture(os.Getenv("STREAMS_TEST")); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// capture runs a shell command and describes what was captured, on the original stream.
func capture(command string) error {
	if err := NoInput(); err != nil {
		return err
	}
	c, err := Begin(10)
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	fmt.Fprint(c.Err(), "during;")
	failed := cmd.Run()
	stdout, stderr, truncated, err := c.End()
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%q %q %t %v", stdout, stderr, truncated, failed)
	return err
}

func TestCapture(t *testing.T) {
	for command, want := range map[string]string{
		"echo out; echo err >&2": `during;"out\n" "err\n" false <nil>`,
		"true":                   `during;"" "" false <nil>`,
		"printf 1234567890":      `during;"1234567890" "" false <nil>`,
		"printf 12345678901":     `during;"1234567890" "" true <nil>`,
		"printf 123456789ä":      `during;"123456789" "" true <nil>`,
		"head -c 3000000 /dev/zero >&2; printf x": `during;"x" "` + strings.Repeat(`\x00`, 10) + `" true <nil>`,
		"cat; exit 3": `during;"" "" false exit status 3`,
		"exec sleep 5 2>/dev/null & printf started": `during;"started" "" true <nil>`,
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STREAMS_TEST="+command)
		cmd.Stdin = strings.NewReader("not the command's")
		out, err := cmd.CombinedOutput()
		childtest.Must(t, err)
		if string(out) != want {
			t.Errorf("%s:\n got %s\nwant %s", command, out, want)
		}
	}
}

// Without an input, the command reads nothing.
func TestNoInput(t *testing.T) {
	r, w, err := os.Pipe()
	childtest.Must(t, err)
	defer r.Close()
	defer w.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STREAMS_TEST=readlink -n /proc/self/fd/0")
	cmd.Stdin = r
	out, err := cmd.CombinedOutput()
	childtest.Must(t, err)
	if !strings.Contains(string(out), `"/dev/null"`) {
		t.Errorf("%s", out)
	}
}
