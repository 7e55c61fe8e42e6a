// Package cgroup gives a session a cgroup of its own, on the unified hierarchy (cgroup v2) wherever that is mounted.
//
// The cgroup carries the limits that only it can: memory, processes, processor time and disk traffic of all processes of the
// session together. It is also the one handle that reaches every process of a session, however it daemonizes: Kill
// leaves none behind. It isn't what makes a process guarded: a process that is moved out loses its limits, not its
// policy. Nothing that is guarded may write to the cgroup file system.
//
// On a hybrid hierarchy the controllers are bound to version 1, and version 2 has none: sessions get a cgroup but no limits
// there. Cover says so, rule by rule, so that a policy whose limits can't be set is refused.
package cgroup
