/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The thread that a kernel object belongs to, by the object's address: the address (42 bits, without the bits that all addresses share) and
 * the thread id (22 bits) are stored at once.
 */
#ifndef FXTREC_WHOSE_H
#define FXTREC_WHOSE_H

#include "fxtrec.h"

/* The address as a number: otherwise the verifier allows no arithmetic on a known pointer. */
static inline u64 number_of(const void *pointer)
{
	u64 number = (u64)pointer;

	asm volatile("%0 = -%0\n%0 = -%0" : "+r"(number));
	return number;
}

#define TID_BITS 22
#define ALIGNED_BITS 6

static inline u64 whose(u64 address, u32 sender)
{
	return address >> ALIGNED_BITS << TID_BITS | sender;
}

static inline bool is_of(u64 whose, u64 address)
{
	return whose && (whose ^ address >> ALIGNED_BITS << TID_BITS) >> TID_BITS == 0;
}

static inline u32 sender_of(u64 whose)
{
	return whose & ((1 << TID_BITS) - 1);
}

#endif
