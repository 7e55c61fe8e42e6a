/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the programs read the kernel's memory: fields at plain addresses, names' bytes, and the order of both.
 */
#ifndef TOOLGUARD_KERNEL_H
#define TOOLGUARD_KERNEL_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * LOAD reads a field of a kernel struct at a plain address. Where the kernel can tell the verifier what lies there
 * (bpf_rdonly_cast, Linux 6.2) that is one load; before, it's a call. An address that can't be read gives 0 in both, and
 * nothing here is right with a 0. A name's bytes can always be read: the program is in an RCU section, until whose end none is freed.
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

/* The registers of a system call, as each architecture has them, by which an object for both knows where it is. */
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
 * What is read of a dentry is read between two looks at its d_seq. amd64 loads in that order, arm64 needn't: there an address that
 * depends on the first look's value is loaded from after it, and an exchange, which the kernel has both acquire and release,
 * is a barrier for all before and after it. amd64's verifier leaves both out.
 */
static __always_inline u64 after(u64 look, u64 address)
{
	if (ON_AMD64)
		return address;
	asm volatile("%0 &= 0" : "+r"(look));
	return address + look;
}

/* bounded masks an index where the verifier sees it: the compiler would leave out a mask that it knows to change nothing. */
#define bounded(i, mask)                     \
	do {                                 \
		asm volatile("" : "+r"(i)); \
		(i) &= (mask);               \
	} while (0)

/* words_of is a struct of the kernel's that is nothing but words: what a name is loaded as. */
#define NAME_WORDS 8
struct pt_regs {
	unsigned long r[NAME_WORDS];
};

#define BYTE(address) (*(u8 *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(struct pt_regs)))

#endif
