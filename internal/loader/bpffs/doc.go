// Package bpffs has the paths of toolguard's pinned objects in the BPF file system, where they outlive the process that made them. The
// folders are writable by root only.
package bpffs

// The BPF file system, and toolguard's folder in it, which no session can access. Package loader has a folder in it for each version,
// package cgroupsock one for all versions.
const (
	FS   = "/sys/fs/bpf"
	Root = FS + "/toolguard"
	Net  = Root + "/net"
)
