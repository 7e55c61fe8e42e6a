// Package cgroup creates a cgroup for a session, on the unified hierarchy (cgroup v2) wherever that is mounted.
//
// The cgroup enforces the limits that need it: memory, processes, processor time and disk traffic of all processes of the session
// together. It also reaches every process of a session, even daemonized ones: Kill leaves none behind. It doesn't confine: a
// process that is moved out of the cgroup loses its limits and not its policy. No confined process may write to the cgroup file
// system.
//
// On a hybrid hierarchy, the controllers are bound to version 1, and version 2 has none: sessions have a cgroup without limits
// there. Report states that for each limit, so that a policy whose limits can't be enforced is rejected.
package cgroup
