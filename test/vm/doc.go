// Package vm tests what this machine may not have and a virtual machine has: several kernels, cgroup v2 with all its
// controllers, BPF LSM, systemd. `make vm-test` runs it in one of each kernel; elsewhere its tests are skipped.
package vm
