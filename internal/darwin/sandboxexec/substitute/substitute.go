// Package substitute has a program for tests that takes the arguments of sandbox-exec. It confines nothing: it executes the command, and only pretends
// to deny the reading of the file that the parameter DENIED names, so that the code around sandbox-exec can be tested on every system.
package substitute

import (
	"os"
	"path/filepath"
	"testing"
)

// The ways in which it behaves.
const (
	Denies  = "denies"  // as sandbox-exec does
	Open    = "open"    // it denies nothing
	Outer   = "outer"   // within another sandbox
	Rejects = "rejects" // it doesn't accept any profile but the canary's
)

const script = `#!/bin/sh
folder=${0%/*}
profile= denied=
while getopts D:f:p: option; do
	case $option in
	D) case $OPTARG in DENIED=*) denied=${OPTARG#DENIED=} ;; esac ;;
	f) profile=$(cat "$OPTARG") || exit 66 ;;
	p) profile=$OPTARG ;;
	*) echo "sandbox-exec: usage" >&2 && exit 64 ;;
	esac
done
shift $((OPTIND - 1))
read -r mode <"$folder/mode"
case $mode,$profile in
outer,*) echo "sandbox-exec: sandbox_apply: Operation not permitted" >&2 && exit 71 ;;
rejects,*'(allow default)'*) ;;
rejects,*) echo "sandbox-exec: <input string>:1:0: unbound variable: no-such-operation" >&2 && exit 65 ;;
esac
printf '%s\n' "$profile" >"$folder/profile"
if [ -n "$denied" ] && [ "$mode" != open ]; then
	program=$1 status=0
	shift
	for file; do
		if [ "$file" = "$denied" ]; then
			echo "cat: $file: Operation not permitted" >&2 && status=1
		else
			"$program" "$file" || status=1
		fi
	done
	exit $status
fi
exec "$@"
`

// Write writes the program into a new folder, and returns its path. The last profile that it got is in the file "profile" there.
func Write(t testing.TB, mode string) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "sandbox-exec")
	for file, text := range map[string]string{program: script, filepath.Join(dir, "mode"): mode + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return program
}
