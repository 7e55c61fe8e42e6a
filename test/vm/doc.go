// Package vm tests what only virtual machines may have: several kernels, cgroup v2 with all its
// controllers, BPF LSM, systemd. `make vm-test` runs it in one of each kernel; elsewhere its tests are skipped.
package vm
