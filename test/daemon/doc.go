// Package daemon tests toolguardd and the toolguards that ask it, as they are built for users. What takes a kernel that loads LSM
// programs runs in a virtual machine (make vm-test).
package daemon
