// Package daemon tests the released programs toolguardd and toolguard together. Tests that need a kernel with BPF LSM run in a virtual machine
// (make vm-test).
package daemon
