// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Which kernel lock a thread waits for: noted for the program on switches. See contentions.rs.
 */
#include "contention.h"

LICENSE;

static inline struct contention *own_place(u32 *tid)
{
	*tid = bpf_get_current_pid_tgid();
	return contention_of(*tid);
}

/* contention_begin(lock, flags): the lock is held by another thread. A lock for which a thread only spins does not matter when the thread
 * is switched out. */
SEC("tp_btf") int fxtrec_lock(u64 *args)
{
	u64 lock = args[0];
	u32 flags = args[1], tid;

	if (flags & LCB_F_SPIN)
		return 0;
	struct contention *place = own_place(&tid);
	place->address = lock;
	place->flags = flags;
	place->tid = tid;
	return 0;
}

/* contention_end(lock, ret): the thread has the lock, or has stopped waiting. */
SEC("tp_btf") int fxtrec_lock_had(u64 *args)
{
	u64 lock = args[0];
	u32 tid;
	struct contention *place = own_place(&tid);

	/* It may be a different lock, for which the thread only spun in the meantime. */
	if (place->tid == tid && place->address == lock)
		place->tid = 0;
	return 0;
}
