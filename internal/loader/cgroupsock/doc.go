// Package cgroupsock holds a session's internet sockets to its policy, by the kernel's own programs (bpf/sock.c) on the session's
// cgroup. It needs root, Linux 6.1 and cgroup v2, and no BPF LSM.
//
// What the kernel decides alone are addresses and ports: an Image is the policy's word on them. What depends on a name, or on
// what is said on a connection, goes to egress: such connections, and all of DNS, are redirected to egress's ports, where
// Kernel.Original tells where they were going. What egress finds to be a name that may be reached directly, it tells the kernel
// with Kernel.Permit. Deny is what is in no map, and what fits into none.
//
// # Two checks
//
// The first answers a task at once: connect, sendto, bind and socket fail with EACCES. Only that a UDP socket is connected is left
// to the second, as that sends nothing, and every program does it that looks a name up. The second looks at the packets of the
// session's sockets, so that whatever finds a way around the first doesn't leave the machine, and nothing comes in that isn't
// waited for with the policy's leave. Each denial is an Event, or is counted.
//
// # Whose sockets
//
// The kernel runs these programs for the sockets that were made by a process in the cgroup, or beneath it, whoever uses them. So
// one that was made outside and handed in isn't held, and one that was made inside and handed out is. Where the programs of
// package loader guard the session too, its processes can't be given sockets that others made; what is left then are those
// that it's started with. A process that root moves out of the cgroup makes sockets that aren't held.
//
// Packet, vsock and other sockets than the internet's aren't seen here: package seccomp and package loader refuse them.
//
// # As long as the cgroup
//
// The programs hang on the cgroup and have maps of their own for each session. Nobody's death takes them away, and they go when the
// cgroup is gone and no socket that was made in it is left.
package cgroupsock
