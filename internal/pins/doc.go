// Package pins is where toolguard's state in the kernel outlives whoever made it: folders of the BPF file system, which are root's
// alone.
package pins

// The BPF file system, and toolguard's folder there, where no session may do anything. Package loader has a folder in it for each
// version, and package netguard one for all.
const (
	FS   = "/sys/fs/bpf"
	Root = FS + "/toolguard"
	Net  = Root + "/net"
)
