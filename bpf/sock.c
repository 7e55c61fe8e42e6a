/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that enforce a session's policy on its internet sockets. They are attached to the session's own cgroup and are
 * freed with it. They need no BPF LSM. There are two checks: of a task's calls (sock/connect.c), and of the packets that leave
 * or arrive (sock/packet.c).
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
