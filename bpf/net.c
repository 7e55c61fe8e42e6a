/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that hold a session's internet sockets to its policy. They are attached to its cgroup, each session's to its own,
 * and go with it; they need no BPF LSM. Two walls: what a task asks for (netsocket.c), and the packets that come of it
 * (netpacket.c).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "netctx.h"

#define AF_INET 2

#include "netjudge.h"

#include "netsocket.c"
#include "netpacket.c"

char _license[] SEC("license") = "GPL";
