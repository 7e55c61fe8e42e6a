// Package differential asks the kernel and the evaluator the same questions: random trees, random policies, random operations,
// through the real binary in a virtual machine (make vm-test). A process under `toolguard exec` executes operations; their results
// must match policy.CheckFS, CheckRename and CheckLink for the same paths, the event must name the same rule and target, and allowed
// operations must end as without toolguard.
//
// Every fourth session tests races: of two processes in it, and of a process outside that exchanges names that the two use. The
// results then depend on the order, so the tests check a weaker property: no existing file is read, changed or
// removed unless a name that it can have had grants that, and nothing is created where that is denied. With BPF programs that don't check
// whether a path was renamed during the walk (changed, bpf/lib/dentry.h), and that delay the walk, one race session in ten fails.
//
// The test's name has the seed of a session's generator, "seed=N". This repeats one session with that seed:
//
//	go test -count=1 -exec "$PWD/scripts/vm/exec 6.12" ./test/differential -v -operations 1000 -seed N
//
// A race can't be repeated exactly, but mostly happens again soon. In CI each kernel has other seeds (scripts/vm/exec). For a long run in
// one machine, raise its limit (-t is in seconds):
//
//	CGO_ENABLED=0 go test -c -o package.test ./test/differential && built=$(scripts/vm/built)
//	scripts/vm/run -k 6.12 -m 1536 -t 40000 -f package.test -f "$built" -- env TOOLGUARD_VM=6.12 "TOOLGUARD_BUILT=/t/${built##*/}" \
//		./package.test -test.timeout 0 -test.v -operations 1000000 -seed 10000
//
// A million operations on 6.1 and 6.12 (November 2026, up to 5014ae0): five sessions differed. toolguard failed to start four of them
// because of symlinks that it couldn't follow, which is fixed; one was an error of this test about a move that uncovers a file.
package differential
