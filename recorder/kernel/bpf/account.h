/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
#ifndef FXTREC_ACCOUNT_H
#define FXTREC_ACCOUNT_H

#include "fxtrec.h"

/* One cache line per CPU. */
struct account {
	u64 depth; /* how many interrupts are nested now */
	u64 since; /* when the outermost of them began */
	u64 hard;
	u64 soft;
	u64 total; /* the time in interrupts, nested ones counted once */
	u64 asked; /* when a switch was first asked for; 0 when none is */
	u64 asked_tid; /* the thread that is to make room */
	u64 unused;
};

MEMORY(accounts, struct account);
/* One less than the number of lines, which is a power of two. */
CHOICE(last_account, 0);

static inline struct account *account_of(u64 cpu)
{
	struct account *accounts_of_cpus = memory(&accounts);
	struct account *own = &accounts_of_cpus[cpu & chosen(last_account)];

	as_made(own);
	return own;
}

#endif
