// Package managed manages sessions' cgroups with containerd/cgroups: limits, kill and statistics. toolguardd uses it, which starts
// once. toolguard, which starts with every command, doesn't link it (1.2 ms, 6 MB) and writes the few files itself; a test checks
// both against the same table.
package managed
