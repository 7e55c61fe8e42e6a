// Package cgroupsock enforces a session's policy on its internet sockets, with BPF programs (bpf/sock.c) on the session's
// cgroup. It needs root, Linux 6.1 and cgroup v2, and no BPF LSM.
//
// The kernel decides about addresses and ports, by the policy's Image. Egress decides where a rule depends on a name or on the data of
// a connection: such connections, and all of DNS, are redirected to egress's ports. Kernel.Original returns their original
// destination. When egress has resolved a name that may be reached directly, it adds the address with Kernel.Permit. An address that
// is in no map is denied.
//
// # Two checks
//
// The first check is of system calls: connect, sendto, bind and socket fail with EACCES. Connecting a UDP socket is left to the second
// check, since it sends nothing, and resolvers do it for every name. The second check is of the packets of the session's sockets: no
// packet that bypassed the first check leaves the machine, and none arrives at a socket that may not listen. Each denial is an Event,
// or is counted.
//
// # Whose sockets
//
// The kernel runs these programs for the sockets that were made by a process in the cgroup, or beneath it, whichever process uses
// them. So a socket that was made outside and passed in isn't confined, and one that was made inside and passed out is. Where the
// programs of package loader confine the session, too, its processes can't receive sockets that processes outside made, except those
// that the command starts with. A process that root moves out of the cgroup makes sockets that aren't confined.
//
// These programs don't see packet, vsock and other sockets than the internet's: package seccomp and package loader deny them.
//
// # Lifetime
//
// The programs are attached to the cgroup and have their own maps for each session. They don't depend on any process. The kernel frees
// them with the cgroup and the last socket that was made in it.
package cgroupsock
