// Package differential asks the kernel and the evaluator the same questions: random trees, random policies, random operations,
// through the real binary in a virtual machine (make vm-test). A process under `toolguard exec --backend bpf` does what it's
// told; what it gets must be what policy.CheckFS, CheckRename and CheckLink say of the same paths, the event must name what they
// name, and what they allow must end as it ends without toolguard.
//
// One session's failure is seen again with go test -seed N -operations 300.
package differential
