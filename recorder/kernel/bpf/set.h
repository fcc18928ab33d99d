/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Sets of threads: a bit for each possible id. See scope.rs. */
#ifndef FXTREC_SET_H
#define FXTREC_SET_H

#include "fxtrec.h"

/* Ids of threads stay below the kernel's PID_MAX_LIMIT. */
#define TIDS (4 * 1024 * 1024)

/* The word with this thread's bit in a set of threads. */
static inline u64 *word_of(void *set, u32 tid)
{
	u64 *words = memory(set);
	u64 *word = &words[(tid & (TIDS - 1)) / 64];

	as_made(word);
	return word;
}

static inline bool is_set(const u64 *word, u32 tid)
{
	return *(const volatile u64 *)word >> (tid & 63) & 1;
}

static inline bool is_member(void *set, u32 tid)
{
	return is_set(word_of(set, tid), tid);
}

#endif
