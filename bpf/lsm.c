
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that hold a session to its policy. One object, so that all of them share their maps; a file for each
 * concern. What the hooks are for, and what each is called from, is said there. A hook that a kernel doesn't have is left
 * out when the programs are loaded (internal/loader knows which of them may be).
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
