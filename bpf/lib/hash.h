/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of names and numbers, by which the image is looked up (internal/loader/image has the same). */
#ifndef TOOLGUARD_HASH_H
#define TOOLGUARD_HASH_H

#include "vmlinux.h"

static __always_inline u64 hash_word(u64 h, u64 word)
{
	h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
	return h ^ h >> 29;
}

/* hash_end has the highest bits of a product, which depend on all bits, choose the bucket. */
static __always_inline u32 hash_end(u64 h)
{
	return __builtin_bswap64(h);
}

#endif
