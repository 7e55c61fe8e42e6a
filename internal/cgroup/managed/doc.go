// Package managed has sessions' cgroups written by containerd/cgroups: limits, end and figures. It's for toolguardd, which starts once.
// toolguard, which starts with every command, doesn't link it (1.2 ms, 6 MB) and writes its few files itself; one test holds what both
// write to the same table.
package managed
