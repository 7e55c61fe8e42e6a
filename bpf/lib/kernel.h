/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's memory: fields at plain addresses, the bytes of names, and the order of both.
 */
#ifndef TOOLGUARD_KERNEL_H
#define TOOLGUARD_KERNEL_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * LOAD reads a field of a kernel struct at a plain address. With bpf_rdonly_cast (Linux 6.2) it's one load; before, it's a
 * call. Both return 0 for an unreadable address, and no caller allows anything on a 0. The bytes of a name are always readable:
 * the program runs in an RCU read-side section, and names are freed after it.
 */
#ifndef bpf_ksym_exists
#define bpf_ksym_exists(sym) (!!(sym))
#endif
#define LOAD(type, ptr, field)                                                                              \
	({                                                                                                  \
		__typeof__(((type *)0)->field) v_;                                                          \
		if (bpf_ksym_exists(bpf_rdonly_cast)) {                                                     \
			v_ = ((type *)bpf_rdonly_cast((void *)(ptr), bpf_core_type_id_kernel(type)))->field; \
		} else {                                                                                    \
			__typeof__(v_) read_ = 0;                                                           \
			bpf_probe_read_kernel(&read_, sizeof(read_),                                        \
					      (void *)((u64)(ptr) + bpf_core_field_offset(type, field)));   \
			v_ = read_;                                                                         \
		}                                                                                           \
		v_;                                                                                         \
	})

/* The registers of a system call on each architecture. The object is for both and detects the one it runs on. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___amd64 {
	unsigned long si, dx, orig_ax;
};
struct pt_regs___arm64 {
	u64 regs[31];
	int syscallno;
};
#pragma clang attribute pop
#define ON_AMD64 bpf_core_field_exists(struct pt_regs___amd64, orig_ax)

/*
 * The fields of a dentry are read between two reads of its d_seq. amd64 loads in program order. arm64 may not: an address that
 * depends on the first read orders the loads after it, and an exchange, which acquires and releases, is a full barrier. On
 * amd64 the verifier removes both.
 */
static __always_inline u64 after(u64 look, u64 address)
{
	if (ON_AMD64)
		return address;
	asm volatile("%0 &= 0" : "+r"(look));
	return address + look;
}

/* bounded masks an index for the verifier. The compiler would remove a plain mask, as it knows that it changes nothing. */
#define bounded(i, mask)                     \
	do {                                 \
		asm volatile("" : "+r"(i)); \
		(i) &= (mask);               \
	} while (0)

/* words_of is a kernel struct of words only, as which a name is loaded. */
#define NAME_WORDS 8
struct pt_regs {
	unsigned long r[NAME_WORDS];
};

#define BYTE(address) (*(u8 *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(struct pt_regs)))

#endif
