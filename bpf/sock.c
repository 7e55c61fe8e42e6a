/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that hold a session's internet sockets to its policy. They are attached to its cgroup, each session's to its own,
 * and go with it; they need no BPF LSM. Two checks: what a task asks for (sock/connect.c), and the packets that come of it
 * (sock/packet.c).
 */
#include "lib/vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "sock/ctx.h"

#define AF_INET 2

#include "sock/decide.h"

#include "sock/connect.c"
#include "sock/bind.c"
#include "sock/packet.c"

char _license[] SEC("license") = "GPL";
