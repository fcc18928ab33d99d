/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
#ifndef FXTREC_CONTENTION_H
#define FXTREC_CONTENTION_H

#include "fxtrec.h"

#define CONTENTIONS (64 * 1024)

/* Which thread waits for which kernel lock. A thread's slot is found by the lower bits of its id. */
struct contention {
	u32 tid; /* 0 if it waits no longer */
	u32 flags;
	u64 address;
};

MEMORY(contentions, struct contention);

static inline struct contention *contention_of(u32 tid)
{
	struct contention *places = memory(&contentions);
	return &places[tid & (CONTENTIONS - 1)];
}

#endif
