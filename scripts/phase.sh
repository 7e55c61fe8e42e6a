# Sourced: phase NAME COMMAND... runs a part of the test run and notes its seconds in bin/test/seconds, for the summary.
phase() {
	local name=$1 start=$SECONDS status=0
	shift
	echo "== $name"
	"$@" || status=$?
	mkdir -p bin/test
	echo "$name $((SECONDS - start))" >>bin/test/seconds
	[ $status -eq 0 ] || echo "== $name failed" >&2
	return $status
}
