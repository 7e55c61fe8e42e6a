
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The LSM programs that enforce a session's policy. They are one object, so that they share their maps. Each file has one
 * concern, and its comments name the callers of each hook. The loader leaves out a hook that the kernel doesn't have
 * (internal/loader has the list of optional hooks).
 */
#include "lib/vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "lib/report.h"

#include "lsm/task.c"
#include "lsm/unix.c"
#include "lsm/directory.c"
#include "lsm/file.c"
#include "lsm/ioctl.c"
#include "lsm/exec_args.c"
#include "lsm/exec.c"
#include "lsm/kernel.c"
#include "lsm/syscall.c"

char _license[] SEC("license") = "GPL";
